package ledger

import (
	"maps"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Conduct counts the recent failures between one cluster and each of its counterparts, and pauses
// the cluster after too many. A provider's counterparts are its requesters; a requester's are its
// providers.
//
// Every counterpart has its own tally, because a counterpart may lie. The reports of one
// counterpart can only pause the cluster for that counterpart: a pause for all needs reports from
// at least two. A success subtracts points only from the tally of the counterpart that was served.
// So each counterpart without failures makes up for at most one failure that others report,
// however many successes it reports.
//
// Conduct needs no events of its own: it is computed from events that are journaled for other
// reasons, and from their times.
type Conduct struct {
	// Tallies holds one tally for each counterpart, by cluster ID.
	Tallies map[string]Tally `json:"tallies,omitempty"`
	// Pause applies to all counterparts.
	Pause
}

// Tally counts the failures with one counterpart.
type Tally struct {
	Points int32 `json:"points,omitempty"`
	// Served is true if the last success with the counterpart left it without points. See Points.
	Served bool `json:"served,omitempty"`
	// At is when Points or Served last changed.
	At time.Time `json:"at"`
	// Pause applies to this counterpart alone.
	Pause
}

// Pause blocks new placements until a point in time. After that, as long as there are still too
// many points, one placement at a time is admitted as a trial.
type Pause struct {
	// Until is when the latest pause ends or ended; zero if there was none.
	Until time.Time `json:"until,omitzero"`
	// Level is the number of consecutive pauses, see levelAt. It determines their length.
	Level int32 `json:"level,omitempty"`
	// Trial is the placement or quote that was admitted as a trial after Until; "" for none.
	Trial string `json:"trial,omitempty"`
}

// Suspension says why and until when a cluster gets no new placements.
type Suspension struct {
	// Until is when the pause ends; zero during a trial.
	Until time.Time
	// Failures is how many recent failures the present points stand for: the points divided by
	// failurePoints, rounded up.
	Failures int32
	// Trial is the name of the placement or quote that is the trial; "" during a pause.
	Trial string
	// Level is the number of consecutive pauses.
	Level int32
}

const (
	// A failure adds failurePoints. A refusal before the placement was accepted adds only
	// refusalPoints, because it costs the requester little time. A success subtracts successPoints.
	failurePoints int32 = 2
	refusalPoints int32 = 1
	successPoints int32 = 1
	// pauseAt is the number of points at which a cluster is paused: three failures in a row or,
	// over a long time, more than one failure in three placements. A tally never has more points,
	// so one success suffices to end a trial.
	pauseAt int32 = 3 * failurePoints
	// mostOfOne is how many points one counterpart contributes at most to a pause for all
	// counterparts.
	mostOfOne int32 = 2 * failurePoints
	// shortestPause is the length of the first pause. Each further pause is twice as long as the
	// one before, up to longestPause.
	shortestPause = time.Minute
	longestPause  = time.Hour
	// levelLasts is how long there must be no pause for Pause.Level to fall by one.
	levelLasts = 2 * time.Hour
	// maxLevel is the level of the longest pause.
	maxLevel int32 = 7
	// tallyLasts is how long the points of a tally count after its last change.
	tallyLasts = 24 * time.Hour
	// maxTallies is the number of tallies that a cluster may have, to limit memory.
	maxTallies = 64
)

// Points returns the sum of the points of all tallies, each counted up to mostOfOne. For every
// counterpart that was served and has no points, it subtracts failurePoints. It ignores tallies
// that did not change within tallyLasts. The result is never negative.
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

// Suspended returns the suspension that applies to all counterparts, nil if there is none.
func (c *Conduct) Suspended(now time.Time) *Suspension {
	if c == nil {
		return nil
	}
	return c.suspensionFor(c.Points(now), now)
}

// SuspendedFor calls f for every counterpart with a suspension because of its own tally, in random
// order.
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

// Failures returns, for each counterpart whose tally has points, how many recent failures these
// stand for: the points divided by failurePoints, rounded up.
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

// Next returns when the next pause or tally ends merely because time passes; zero if none does.
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

// noteFailed adds points for a failure of a provider towards a requester.
func (cs *clusters) noteFailed(at time.Time, r *Reservation, p *Placement, points int32) {
	cs.updateProviding(at, p.Provider, true, func(c *Conduct) {
		c.addFailure(at, r.Requester, brokerv1alpha1.PlacementName(r.Name, p.Number), points)
	})
}

// noteServed records that a provider has served a requester, which subtracts points.
func (cs *clusters) noteServed(at time.Time, r *Reservation, p *Placement) {
	cs.updateProviding(at, p.Provider, false, func(c *Conduct) { c.addSuccess(at, r.Requester, brokerv1alpha1.PlacementName(r.Name, p.Number)) })
}

// updateProviding changes the conduct of a cluster as a provider, and updateConsuming its conduct
// as a requester. Neither does anything for a cluster that is not in the book.
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

// updateConduct applies a change to c. If c is nil, it creates a Conduct only if begin is true.
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

// addFailure adds points to a counterpart's tally for a failure of the named placement, and begins
// a pause if there are now too many.
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

// addSuccess subtracts points from a counterpart's tally for a success of the named placement, and
// ends the trial of this placement.
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

// beginTrial marks a new placement as the trial if it is the first one after a pause and there are
// still too many points. It does so for the pause for all counterparts, and for the pause for the
// given one.
func (c *Conduct) beginTrial(at time.Time, counterpart, placement string) {
	if c.Trial == "" && !at.Before(c.Until) && c.Points(at) >= pauseAt {
		c.Trial = placement
	}
	if t, ok := c.Tallies[counterpart]; ok && t.Trial == "" && !at.Before(t.Until) && t.pointsAt(at) >= pauseAt {
		t.Trial = placement
		c.Tallies[counterpart] = t
	}
}

// endTrial ends the trial of a placement that was given up without a result. If the placement was
// the trial for all counterparts, its counterpart is paused again. Otherwise this counterpart
// could use up every trial, and the other counterparts would never get one.
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

// setTally stores a counterpart's tally and drops outdated ones. If there are then more than
// maxTallies, it drops those without points first, and among equals the one that has not changed for
// the longest time.
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

// dropOutdated drops tallies that no longer have any effect: those that are too old to count, and
// those without points if no tally has any points. It keeps a tally whose pause still has an
// effect.
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

// orNil returns nil for a Conduct without any effect, to save memory, else c.
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

// isRecent reports whether the tally changed within the last tallyLasts.
func (t *Tally) isRecent(at time.Time) bool { return at.Sub(t.At) < tallyLasts }

func (t *Tally) pointsAt(at time.Time) int32 {
	if !t.isRecent(at) {
		return 0
	}
	return t.Points
}

// beginPause begins a pause unless one is already in force. Failures during a pause do not extend
// it, because their placements were granted before the pause.
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

// pauseLength returns how long a pause of the given level lasts.
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
