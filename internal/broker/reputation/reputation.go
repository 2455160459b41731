// Package reputation judges a cluster by what its counterparts experienced: whether it gets anything
// new now, and how well it kept its promises. All types are values that the ledger computes from
// events that are journaled for other reasons, and from their times.
package reputation

import (
	"maps"
	"time"
)

// Reputation pauses a cluster after too many recent failures. A provider's counterparts are its
// requesters; a requester's are the providers whose grants it exceeded.
//
// A counterpart may lie, so each has its own tally. A tally can only pause the cluster for its own
// counterpart: a pause for all needs the failures of at least two. A success subtracts points only
// from the tally of the counterpart that was served. So each counterpart without failures makes up
// for at most one failure that others report, however many successes it reports.
//
// A nil Reputation has no failures. Methods that add an outcome return a new value.
type Reputation struct {
	// Tallies holds one tally for each counterpart, by cluster ID.
	Tallies map[string]Tally `json:"tallies,omitempty"`
	// Pause applies to all counterparts.
	Pause
}

// Tally counts the failures with one counterpart. A tally without points stands for a success.
type Tally struct {
	Points int32 `json:"points,omitempty"`
	// At is when an outcome was last added.
	At time.Time `json:"at"`
	// Pause applies to this counterpart alone.
	Pause
}

// Pause is the latest pause. It blocks everything new for Backoff, but at most for an hour. Until
// Backoff is over, the cluster is then the last resort.
//
// Whatever is granted to the cluster while there are still too many points is a trial. It begins the
// pause again, so that nothing else is granted before the trial succeeds.
type Pause struct {
	// Began is when the pause began; zero if there was none, or if a success has ended it.
	Began time.Time `json:"began,omitzero"`
	// Level is the number of pauses, minus one for each success without points. It determines the
	// length of the pause.
	Level int32 `json:"level,omitempty"`
}

// Suspension says until when a cluster gets nothing new.
type Suspension struct {
	// Failures is how many recent failures the present points stand for, rounded up.
	Failures int32
	Until    time.Time
	// LastResort is true if the cluster may serve before Until if no other can.
	LastResort bool
}

const (
	// Failure is the number of points of a failure. A Refusal before the placement was accepted has
	// fewer, because it costs the requester little time. A success subtracts one.
	Failure int32 = 2
	Refusal int32 = 1
	// pauseAt is the number of points at which a cluster is paused: three failures in a row or,
	// over a long time, more than one failure in three placements. A tally never has more points.
	pauseAt = 3 * Failure
	// mostOfOne is how many points one counterpart contributes at most to a pause for all.
	mostOfOne = 2 * Failure
	// shortestPause is the length of the first pause. Each further pause is twice as long as the
	// one before, up to maxLevel: eleven days. So a cluster that always fails gets less than one
	// in a hundred requests even if there is only one request an hour.
	shortestPause = time.Minute
	maxLevel      = 15
	// longestBlock is how long a pause blocks a cluster that is the last resort.
	longestBlock = time.Hour
	// memory is how long a tally counts after its last change.
	memory = 30 * 24 * time.Hour
	// maxTallies is the number of tallies that a cluster may have, to limit memory.
	maxTallies = 64
)

// Backoff returns how long the given number of failures in a row keeps a cluster away.
func Backoff(failures int32) time.Duration {
	return shortestPause << (min(max(failures, 1), maxLevel) - 1)
}

// Block returns for how much of Backoff the cluster is not even the last resort.
func Block(failures int32) time.Duration { return min(Backoff(failures), longestBlock) }

// Granted adds that something was granted to the cluster, and makes it a trial if there are still too
// many points.
func (r *Reputation) Granted(at time.Time, counterpart string) *Reputation {
	out := r.copyAt(at)
	if out.Points(at) >= pauseAt {
		out.Began = at
	}
	if t, ok := out.Tallies[counterpart]; ok && t.Points >= pauseAt {
		t.Began = at
		out.Tallies[counterpart] = t
	}
	return out.orNil()
}

// Failed adds a failure of what was granted at the given time. It ignores failures of what was
// granted before a pause that still blocks the cluster: they are no news.
func (r *Reputation) Failed(at, granted time.Time, counterpart string, points int32) *Reputation {
	out := r.copyAt(at)
	t, before := out.Tallies[counterpart], out.Points(at)
	if out.blocksSince(at, granted) || t.blocksSince(at, granted) {
		return out.orNil()
	}
	t.Points, t.At = min(t.Points+points, pauseAt), at
	if t.Points == pauseAt {
		t.beginAt(at)
	}
	out.setTally(counterpart, t)
	// A counterpart that contributes as many points as it can must not prolong the pause for all.
	if now := out.Points(at); now >= pauseAt && (now > before || !out.Began.IsZero()) {
		out.beginAt(at)
	}
	return out
}

// Served adds a success of what was granted at the given time.
func (r *Reputation) Served(at, granted time.Time, counterpart string) *Reputation {
	out := r.copyAt(at)
	if len(out.Tallies) == 0 {
		return nil
	}
	t := out.Tallies[counterpart]
	out.applySuccess(granted, out.Points(at))
	t.applySuccess(granted, t.Points)
	t.Points, t.At = max(t.Points-1, 0), at
	out.setTally(counterpart, t)
	return out.orNil()
}

// Points returns the sum of the points of all tallies, each counted up to mostOfOne, minus the points
// of one failure for every counterpart that was served and has no points. It is never negative.
func (r *Reputation) Points(now time.Time) int32 {
	if r == nil {
		return 0
	}
	sum := int32(0)
	for _, t := range r.Tallies {
		switch {
		case !t.isRecent(now):
		case t.Points > 0:
			sum += min(t.Points, mostOfOne)
		default:
			sum -= Failure
		}
	}
	return max(sum, 0)
}

// Doubted reports whether the cluster failed the counterpart within a day, or has enough failures
// with all to be paused.
func (r *Reputation) Doubted(counterpart string, now time.Time) bool {
	if r == nil {
		return false
	}
	t := r.Tallies[counterpart]
	return t.Points >= Failure && now.Sub(t.At) < 24*time.Hour || r.Points(now) >= pauseAt
}

// Failures returns how many recent failures there were with each counterpart, rounded up.
func (r *Reputation) Failures(now time.Time) map[string]int32 {
	out := map[string]int32{}
	if r != nil {
		for id, t := range r.Tallies {
			if points := t.pointsAt(now); points > 0 {
				out[id] = failuresFor(points)
			}
		}
	}
	return out
}

// Suspended returns the suspension for all counterparts, nil if there is none, and those for single
// counterparts. next is when this changes merely because time passes, zero if it does not.
func (r *Reputation) Suspended(now time.Time) (all *Suspension, of map[string]Suspension, next time.Time) {
	if r == nil {
		return nil, nil, time.Time{}
	}
	note := func(times ...time.Time) {
		for _, at := range times {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
	}
	note(r.Began.Add(Block(r.Level)), r.Began.Add(Backoff(r.Level)))
	for id, t := range r.Tallies {
		note(t.Began.Add(Block(t.Level)), t.Began.Add(Backoff(t.Level)), t.At.Add(memory))
		if s := t.suspensionAt(t.pointsAt(now), now); s != nil {
			if of == nil {
				of = map[string]Suspension{}
			}
			of[id] = *s
		}
	}
	return r.suspensionAt(r.Points(now), now), of, next
}

// copyAt returns a copy without tallies that are too old to count.
func (r *Reputation) copyAt(at time.Time) *Reputation {
	if r == nil {
		return &Reputation{}
	}
	out := &Reputation{Tallies: maps.Clone(r.Tallies), Pause: r.Pause}
	maps.DeleteFunc(out.Tallies, func(_ string, t Tally) bool { return !t.isRecent(at) })
	return out
}

// setTally stores a tally. If there are then more than maxTallies, it drops those without points
// first, and among equals the one that has not changed for the longest time.
func (r *Reputation) setTally(counterpart string, t Tally) {
	if r.Tallies == nil {
		r.Tallies = map[string]Tally{}
	}
	r.Tallies[counterpart] = t
	for len(r.Tallies) > maxTallies {
		least := ""
		for id, t := range r.Tallies {
			if least == "" || t.isBefore(r.Tallies[least], id < least) {
				least = id
			}
		}
		delete(r.Tallies, least)
	}
}

func (t Tally) isBefore(other Tally, tie bool) bool {
	if (t.Points == 0) != (other.Points == 0) {
		return t.Points == 0
	}
	return t.At.Before(other.At) || t.At.Equal(other.At) && tie
}

// orNil returns nil for a Reputation without failures and levels, to save memory, else r.
func (r *Reputation) orNil() *Reputation {
	for _, t := range r.Tallies {
		if t.Points > 0 || t.Level > 0 {
			return r
		}
	}
	if len(r.Tallies) > 0 && r.Level > 0 {
		return r
	}
	return nil
}

func (t Tally) isRecent(now time.Time) bool { return now.Sub(t.At) < memory }

func (t Tally) pointsAt(now time.Time) int32 {
	if !t.isRecent(now) {
		return 0
	}
	return t.Points
}

func failuresFor(points int32) int32 { return (points + Failure - 1) / Failure }

func (p *Pause) beginAt(at time.Time) {
	*p = Pause{Began: at, Level: min(p.Level+1, maxLevel)}
}

// blocksSince reports whether the pause still blocks the cluster because of failures after the given
// grant.
func (p *Pause) blocksSince(at, granted time.Time) bool {
	return at.Before(p.Began.Add(Block(p.Level))) && granted.Before(p.Began)
}

// applySuccess ends the pause if the success is of a later grant, and lowers the level if there are no points.
func (p *Pause) applySuccess(granted time.Time, points int32) {
	if !granted.Before(p.Began) {
		p.Began = time.Time{}
	}
	if points == 0 {
		p.Level = max(p.Level-1, 0)
	}
}

func (p *Pause) suspensionAt(points int32, now time.Time) *Suspension {
	s := &Suspension{Failures: failuresFor(points), Until: p.Began.Add(Block(p.Level))}
	if !now.Before(s.Until) {
		s.Until, s.LastResort = p.Began.Add(Backoff(p.Level)), true
	}
	if p.Began.IsZero() || !now.Before(s.Until) {
		return nil
	}
	return s
}
