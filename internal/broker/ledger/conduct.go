package ledger

import (
	"maps"
	"time"
)

// Conduct counts what went wrong lately between one cluster and each of its
// counterparts, and pauses the cluster where that was too much. A provider's
// counterparts are its requesters, a requester's are its providers.
//
// Every counterpart has a tally of its own, because a counterpart may lie: the worst that
// it can do alone is to keep the cluster away from itself. The cluster is paused for
// everybody only after reports from two counterparts. For the same reason a success takes
// points from its counterpart's tally alone: an accomplice cannot make up for others.
//
// All of it follows from events that the journal has anyway, and time comes with them.
type Conduct struct {
	// Tallies by the counterpart's cluster ID.
	Tallies map[string]Tally `json:"tallies,omitempty"`
	// Pause is in force for all counterparts.
	Pause
}

// Tally counts what went wrong with one counterpart.
type Tally struct {
	Points int32 `json:"points,omitempty"`
	// Served reports whether the counterpart was served and has no points.
	Served bool `json:"served,omitempty"`
	// At is when the tally changed last.
	At time.Time `json:"at"`
	// Pause is in force for this counterpart alone.
	Pause
}

// Pause keeps new placements away until an instant, and then lets one in at a time for as
// long as there are too many points.
type Pause struct {
	// Until is when the newest pause ends or ended; zero before the first.
	Until time.Time `json:"until,omitzero"`
	// Level counts pauses that followed each other, see levelAt.
	Level int32 `json:"level,omitempty"`
	// Trial names the placement, or the quote, that is let in after Until; "" for none.
	Trial string `json:"trial,omitempty"`
}

const (
	// failurePoints is what a failure adds, refusalPoints a refusal before anything was
	// accepted: it comes at once, and is honest. A success takes successPoints away.
	failurePoints int32 = 2
	refusalPoints int32 = 1
	successPoints int32 = 1
	// pauseAt is at how many points a cluster is paused: three failures in a row, or more
	// than one in three for long. A tally has no more, so that one success ends a trial.
	pauseAt int32 = 3 * failurePoints
	// mostOfOne is how much one counterpart adds to the points that pause a cluster for
	// everybody.
	mostOfOne int32 = 2 * failurePoints
	// shortestPause doubles with every pause that follows, up to longestPause.
	shortestPause = time.Minute
	longestPause  = time.Hour
	// levelLasts is after what time without a pause the next one is one level shorter.
	levelLasts = 2 * time.Hour
	// maxLevel is the level of the longest pause.
	maxLevel int32 = 7
	// tallyLasts is how long an unchanged tally counts.
	tallyLasts = 24 * time.Hour
	// maxTallies bounds the memory for one cluster.
	maxTallies = 64
)

// delay is how long a pause of a level lasts.
func delay(level int32) time.Duration {
	return min(shortestPause<<(max(level, 1)-1), longestPause)
}

func (p *Pause) levelAt(at time.Time) int32 {
	if p.Until.IsZero() {
		return 0
	}
	calm := max(at.Sub(p.Until), 0)
	return p.Level - int32(min(calm/levelLasts, time.Duration(p.Level)))
}

// begin starts a pause, except while one is in force: failures of placements that were
// granted before it tell nothing new.
func (p *Pause) begin(at time.Time) {
	if at.Before(p.Until) {
		return
	}
	level := min(p.levelAt(at)+1, maxLevel)
	*p = Pause{Until: at.Add(delay(level)), Level: level}
}

// isOver reports whether nothing of the pause matters after an instant.
func (p *Pause) isOver(at time.Time) bool {
	return p.Trial == "" && p.levelAt(at) == 0 && !at.Before(p.Until)
}

// counts reports whether the tally has changed recently.
func (t *Tally) counts(at time.Time) bool { return at.Sub(t.At) < tallyLasts }

func (t *Tally) pointsAt(at time.Time) int32 {
	if !t.counts(at) {
		return 0
	}
	return t.Points
}

// Points is what all counterparts together hold against the cluster: each no more than
// mostOfOne, less one failure for every counterpart that was served meanwhile.
func (c *Conduct) Points(at time.Time) int32 {
	if c == nil {
		return 0
	}
	sum := int32(0)
	for _, t := range c.Tallies {
		switch points := t.pointsAt(at); {
		case points > 0:
			sum += min(points, mostOfOne)
		case t.Served && t.counts(at):
			sum -= failurePoints
		}
	}
	return max(sum, 0)
}

// fail adds points to a counterpart's tally, for a placement of that name.
func (c *Conduct) fail(at time.Time, counterpart, placement string, points int32) {
	before, tried := c.Points(at), c.Trial == placement
	t := c.Tallies[counterpart]
	t.Points, t.At, t.Served = min(t.pointsAt(at)+points, pauseAt), at, false
	if t.Points >= pauseAt {
		t.begin(at)
	}
	c.set(at, counterpart, t)
	if now := c.Points(at); now >= pauseAt && (now > before || tried) {
		c.begin(at)
	}
}

// succeed takes a point from a counterpart's tally.
func (c *Conduct) succeed(at time.Time, counterpart, placement string) {
	t := c.Tallies[counterpart]
	if t.Trial == placement {
		t.Trial = ""
	}
	if c.Trial == placement {
		c.Trial = ""
	}
	t.Points, t.At = max(t.pointsAt(at)-successPoints, 0), at
	t.Served = t.Points == 0
	c.set(at, counterpart, t)
}

// try notes that something was granted: what follows a pause is on trial.
func (c *Conduct) try(at time.Time, counterpart, placement string) {
	if c.Trial == "" && !at.Before(c.Until) && c.Points(at) >= pauseAt {
		c.Trial = placement
	}
	if t, ok := c.Tallies[counterpart]; ok && t.Trial == "" && !at.Before(t.Until) && t.pointsAt(at) >= pauseAt {
		t.Trial = placement
		c.Tallies[counterpart] = t
	}
}

// settle ends the trial of a placement that was given up. A counterpart whose trial came
// to nothing waits before it gets another one: else it could keep the others from theirs.
func (c *Conduct) settle(at time.Time, counterpart, placement string) {
	t, ok := c.Tallies[counterpart]
	if t.Trial == placement {
		t.Trial = ""
	}
	if c.Trial == placement {
		c.Trial, ok = "", true
		t.begin(at)
		t.At = at
	}
	if ok {
		c.set(at, counterpart, t)
	}
}

// set replaces a tally. Where there are too many, the one that changed first goes, those
// without points before the others.
func (c *Conduct) set(at time.Time, counterpart string, t Tally) {
	if c.Tallies == nil {
		c.Tallies = map[string]Tally{}
	}
	c.Tallies[counterpart] = t
	c.forget(at)
	for len(c.Tallies) > maxTallies {
		delete(c.Tallies, c.leastTally())
	}
}

// forget drops what no longer matters: tallies that are too old, and successes where no
// failure is left beside them.
func (c *Conduct) forget(at time.Time) {
	failed := false
	for _, t := range c.Tallies {
		failed = failed || t.pointsAt(at) > 0
	}
	for id, t := range c.Tallies {
		t.Points, t.Served = t.pointsAt(at), t.Served && failed && t.counts(at)
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

// orNil returns nil for a conduct with nothing left to remember.
func (c *Conduct) orNil(at time.Time) *Conduct {
	if len(c.Tallies) == 0 && c.isOver(at) {
		return nil
	}
	return c
}

// clone shares nothing that later events change.
func (c *Conduct) clone() *Conduct {
	if c == nil {
		return nil
	}
	return &Conduct{Tallies: maps.Clone(c.Tallies), Pause: c.Pause}
}

// Suspension is why a cluster takes nothing new.
type Suspension struct {
	// Until is when the pause ends; zero while a placement is on trial.
	Until time.Time
	// Failures is how many failures in a row amount to the points.
	Failures int32
	// Trial names what is on trial; "" during a pause.
	Trial string
	// Level counts pauses that followed each other.
	Level int32
}

func (p *Pause) suspension(points int32, now time.Time) *Suspension {
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

// Suspended returns why nothing new is placed for any counterpart, nil where it may be.
func (c *Conduct) Suspended(now time.Time) *Suspension {
	if c == nil {
		return nil
	}
	return c.suspension(c.Points(now), now)
}

// SuspendedFor calls f, in no order, for every counterpart for which nothing new is placed.
func (c *Conduct) SuspendedFor(now time.Time, f func(counterpart string, s *Suspension)) {
	if c == nil {
		return
	}
	for id, t := range c.Tallies {
		if s := t.suspension(t.pointsAt(now), now); s != nil {
			f(id, s)
		}
	}
}

// Failures returns how many failures each counterpart holds against the cluster.
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

// Next returns when time alone changes what is suspended; zero for never.
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

// providing changes how a cluster has provided, and consuming how it has used what it was
// granted. Neither does anything for a cluster that the book does not know.
func (s *State) providing(at time.Time, id string, begin bool, change func(*Conduct)) {
	if c := s.clusters[id]; c != nil {
		c.Providing = changed(c.Providing, at, begin, change)
	}
}

func (s *State) consuming(at time.Time, id string, begin bool, change func(*Conduct)) {
	if c := s.clusters[id]; c != nil {
		c.Consuming = changed(c.Consuming, at, begin, change)
	}
}

// changed makes a conduct where begin says that there is something to remember.
func changed(c *Conduct, at time.Time, begin bool, change func(*Conduct)) *Conduct {
	if c == nil && !begin {
		return nil
	}
	if c == nil {
		c = &Conduct{}
	}
	change(c)
	return c.orNil(at)
}

// failed notes that a provider failed a requester.
func (s *State) failed(at time.Time, r *Reservation, p *Placement, points int32) {
	s.providing(at, p.Provider, true, func(c *Conduct) { c.fail(at, r.Requester, PlacementName(r.Name, p.Number), points) })
}

// served notes that a provider delivered.
func (s *State) served(at time.Time, r *Reservation, p *Placement) {
	s.providing(at, p.Provider, false, func(c *Conduct) { c.succeed(at, r.Requester, PlacementName(r.Name, p.Number)) })
}
