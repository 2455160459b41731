package ledger

import (
	"maps"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Conduct counts the recent failures between one cluster and each of its counterparts, and
// pauses the cluster after too many. A provider's counterparts are its requesters; a
// requester's are its providers.
//
// Every counterpart has its own tally, because a counterpart may lie. A single one can only
// keep the cluster away from itself: the cluster is paused for all counterparts only after
// reports from two of them. Likewise, a success takes points only from its own counterpart's
// tally: an accomplice cannot make up for failures that others report.
//
// All of it follows from events that are journaled for other reasons, and from their times.
type Conduct struct {
	// Tallies holds one tally for each counterpart, by cluster ID.
	Tallies map[string]Tally `json:"tallies,omitempty"`
	// Pause is in force for all counterparts.
	Pause
}

// Tally counts the failures with one counterpart.
type Tally struct {
	Points int32 `json:"points,omitempty"`
	// Served reports whether the counterpart was served and has no points.
	Served bool `json:"served,omitempty"`
	// At is when the tally changed last.
	At time.Time `json:"at"`
	// Pause is in force for this counterpart alone.
	Pause
}

// Pause blocks new placements until an instant. After it, as long as there are too many points,
// one placement at a time is admitted as a trial.
type Pause struct {
	// Until is when the newest pause ends or ended; zero before the first.
	Until time.Time `json:"until,omitzero"`
	// Level counts consecutive pauses, see levelAt.
	Level int32 `json:"level,omitempty"`
	// Trial names the placement or the quote that was admitted after Until; "" for none.
	Trial string `json:"trial,omitempty"`
}

// Suspension is why a cluster gets no new placements.
type Suspension struct {
	// Until is when the pause ends; zero while a placement is on trial.
	Until time.Time
	// Failures is the number of failures in a row to which the points amount.
	Failures int32
	// Trial names the placement or quote on trial; "" during a pause.
	Trial string
	// Level counts consecutive pauses.
	Level int32
}

const (
	// failurePoints are added by a failure, refusalPoints by a refusal before the placement was
	// accepted, which costs the requester little time. A success subtracts successPoints.
	failurePoints int32 = 2
	refusalPoints int32 = 1
	successPoints int32 = 1
	// pauseAt is the number of points that pauses a cluster: three failures in a row, or over a
	// long time more than one failure in three placements. A tally never exceeds it, so that
	// one success ends a trial.
	pauseAt int32 = 3 * failurePoints
	// mostOfOne bounds the points that one counterpart contributes to a pause for all
	// counterparts.
	mostOfOne int32 = 2 * failurePoints
	// shortestPause is the first pause. Each further one is twice as long, up to
	// longestPause.
	shortestPause = time.Minute
	longestPause  = time.Hour
	// levelLasts is the time without a pause that lowers the level of the next one by one.
	levelLasts = 2 * time.Hour
	// maxLevel is the level of the longest pause.
	maxLevel int32 = 7
	// tallyLasts is how long an unchanged tally counts.
	tallyLasts = 24 * time.Hour
	// maxTallies bounds the memory for one cluster.
	maxTallies = 64
)

// Points sums the tallies of all counterparts, each up to mostOfOne, and subtracts one failure
// for every counterpart that was served since.
func (c *Conduct) Points(at time.Time) int32 {
	if c == nil {
		return 0
	}
	sum := int32(0)
	for _, t := range c.Tallies {
		switch points := t.pointsAt(at); {
		case points > 0:
			sum += min(points, mostOfOne)
		case t.Served && t.isRecent(at):
			sum -= failurePoints
		}
	}
	return max(sum, 0)
}

// Suspended returns why no counterpart gets new placements, nil if they may.
func (c *Conduct) Suspended(now time.Time) *Suspension {
	if c == nil {
		return nil
	}
	return c.suspensionFor(c.Points(now), now)
}

// SuspendedFor calls f, in no order, for every counterpart that gets no new placements.
func (c *Conduct) SuspendedFor(now time.Time, f func(counterpart string, s *Suspension)) {
	if c == nil {
		return
	}
	for id, t := range c.Tallies {
		if s := t.suspensionFor(t.pointsAt(now), now); s != nil {
			f(id, s)
		}
	}
}

// Failures returns the number of recent failures with each counterpart.
func (c *Conduct) Failures(now time.Time) map[string]int32 {
	if c == nil {
		return nil
	}
	out := map[string]int32{}
	for id, t := range c.Tallies {
		if points := t.pointsAt(now); points > 0 {
			out[id] = (points + failurePoints - 1) / failurePoints
		}
	}
	return out
}

// Next returns when time alone ends the next pause or tally; zero for never.
func (c *Conduct) Next(now time.Time) time.Time {
	var next time.Time
	note := func(at time.Time) {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if c == nil {
		return next
	}
	note(c.Until)
	for _, t := range c.Tallies {
		note(t.Until)
		note(t.At.Add(tallyLasts))
	}
	return next
}

// noteFailed records that a provider failed a requester.
func (cs *clusters) noteFailed(at time.Time, r *Reservation, p *Placement, points int32) {
	cs.updateProviding(at, p.Provider, true, func(c *Conduct) {
		c.addFailure(at, r.Requester, brokerv1alpha1.PlacementName(r.Name, p.Number), points)
	})
}

// noteServed records that a provider served a requester.
func (cs *clusters) noteServed(at time.Time, r *Reservation, p *Placement) {
	cs.updateProviding(at, p.Provider, false, func(c *Conduct) { c.addSuccess(at, r.Requester, brokerv1alpha1.PlacementName(r.Name, p.Number)) })
}

// updateProviding changes the conduct of a provider, updateConsuming that of a requester.
// Neither has an effect for a cluster that is not in the book.
func (cs *clusters) updateProviding(at time.Time, id string, begin bool, change func(*Conduct)) {
	if c := cs.byID[id]; c != nil {
		c.Providing = updateConduct(c.Providing, at, begin, change)
	}
}

func (cs *clusters) updateConsuming(at time.Time, id string, begin bool, change func(*Conduct)) {
	if c := cs.byID[id]; c != nil {
		c.Consuming = updateConduct(c.Consuming, at, begin, change)
	}
}

// updateConduct applies a change. It creates a missing Conduct only if begin is set.
func updateConduct(c *Conduct, at time.Time, begin bool, change func(*Conduct)) *Conduct {
	if c == nil && !begin {
		return nil
	}
	if c == nil {
		c = &Conduct{}
	}
	change(c)
	return c.orNil(at)
}

// addFailure adds points to a counterpart's tally, for the named placement.
func (c *Conduct) addFailure(at time.Time, counterpart, placement string, points int32) {
	before, tried := c.Points(at), c.Trial == placement
	t := c.Tallies[counterpart]
	t.Points, t.At, t.Served = min(t.pointsAt(at)+points, pauseAt), at, false
	if t.Points >= pauseAt {
		t.beginPause(at)
	}
	c.setTally(at, counterpart, t)
	if now := c.Points(at); now >= pauseAt && (now > before || tried) {
		c.beginPause(at)
	}
}

// addSuccess subtracts points from a counterpart's tally.
func (c *Conduct) addSuccess(at time.Time, counterpart, placement string) {
	t := c.Tallies[counterpart]
	if t.Trial == placement {
		t.Trial = ""
	}
	if c.Trial == placement {
		c.Trial = ""
	}
	t.Points, t.At = max(t.pointsAt(at)-successPoints, 0), at
	t.Served = t.Points == 0
	c.setTally(at, counterpart, t)
}

// beginTrial notes a new placement: the first one after a pause is the trial.
func (c *Conduct) beginTrial(at time.Time, counterpart, placement string) {
	if c.Trial == "" && !at.Before(c.Until) && c.Points(at) >= pauseAt {
		c.Trial = placement
	}
	if t, ok := c.Tallies[counterpart]; ok && t.Trial == "" && !at.Before(t.Until) && t.pointsAt(at) >= pauseAt {
		t.Trial = placement
		c.Tallies[counterpart] = t
	}
}

// endTrial ends the trial of a placement that was given up. Its counterpart has to wait for
// another trial; otherwise it could keep other counterparts from theirs.
func (c *Conduct) endTrial(at time.Time, counterpart, placement string) {
	t, ok := c.Tallies[counterpart]
	if t.Trial == placement {
		t.Trial = ""
	}
	if c.Trial == placement {
		c.Trial, ok = "", true
		t.beginPause(at)
		t.At = at
	}
	if ok {
		c.setTally(at, counterpart, t)
	}
}

// setTally replaces a tally. If there are too many, it drops the one that changed first, and
// tallies without points before others.
func (c *Conduct) setTally(at time.Time, counterpart string, t Tally) {
	if c.Tallies == nil {
		c.Tallies = map[string]Tally{}
	}
	c.Tallies[counterpart] = t
	c.dropOutdated(at)
	for len(c.Tallies) > maxTallies {
		delete(c.Tallies, c.leastTally())
	}
}

// dropOutdated drops tallies that are too old, and successes if no failure is left.
func (c *Conduct) dropOutdated(at time.Time) {
	failed := false
	for _, t := range c.Tallies {
		failed = failed || t.pointsAt(at) > 0
	}
	for id, t := range c.Tallies {
		t.Points, t.Served = t.pointsAt(at), t.Served && failed && t.isRecent(at)
		if c.Tallies[id] = t; t.Points == 0 && !t.Served && t.isOver(at) {
			delete(c.Tallies, id)
		}
	}
}

func (c *Conduct) leastTally() string {
	least := ""
	for id, t := range c.Tallies {
		l := c.Tallies[least]
		switch {
		case least == "", (t.Points == 0) != (l.Points == 0) && t.Points == 0:
			least = id
		case (t.Points == 0) == (l.Points == 0) && (t.At.Before(l.At) || t.At.Equal(l.At) && id < least):
			least = id
		}
	}
	return least
}

// orNil returns nil for a conduct that has no effect, to save memory.
func (c *Conduct) orNil(at time.Time) *Conduct {
	if len(c.Tallies) == 0 && c.isOver(at) {
		return nil
	}
	return c
}

// copyConduct returns a copy that later events do not change.
func (c *Conduct) copyConduct() *Conduct {
	if c == nil {
		return nil
	}
	return &Conduct{Tallies: maps.Clone(c.Tallies), Pause: c.Pause}
}

// isRecent reports whether the tally changed within tallyLasts.
func (t *Tally) isRecent(at time.Time) bool { return at.Sub(t.At) < tallyLasts }

func (t *Tally) pointsAt(at time.Time) int32 {
	if !t.isRecent(at) {
		return 0
	}
	return t.Points
}

// beginPause starts a pause unless one is in force. Failures during a pause are no new
// information: their placements were granted before it.
func (p *Pause) beginPause(at time.Time) {
	if at.Before(p.Until) {
		return
	}
	level := min(p.levelAt(at)+1, maxLevel)
	*p = Pause{Until: at.Add(pauseLength(level)), Level: level}
}

func (p *Pause) levelAt(at time.Time) int32 {
	if p.Until.IsZero() {
		return 0
	}
	calm := max(at.Sub(p.Until), 0)
	return p.Level - int32(min(calm/levelLasts, time.Duration(p.Level)))
}

// pauseLength returns how long a pause of a level lasts.
func pauseLength(level int32) time.Duration {
	return min(shortestPause<<(max(level, 1)-1), longestPause)
}

// isOver reports whether the pause no longer has any effect.
func (p *Pause) isOver(at time.Time) bool {
	return p.Trial == "" && p.levelAt(at) == 0 && !at.Before(p.Until)
}

func (p *Pause) suspensionFor(points int32, now time.Time) *Suspension {
	s := &Suspension{Failures: (points + failurePoints - 1) / failurePoints, Level: p.Level}
	switch {
	case now.Before(p.Until):
		s.Until = p.Until
	case points >= pauseAt && p.Trial != "":
		s.Trial = p.Trial
	default:
		return nil
	}
	return s
}
