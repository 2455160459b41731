package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// rules are what an administrator has set.
type rules struct {
	preempts bool
	ceilings map[string]int32
}

const (
	ruledLength  = 6
	ruledTimeout = 5 * time.Minute
	ruledGrace   = 30 * time.Second
)

func (r rules) config() Config {
	c := DefaultConfig()
	c.Queue = QueueConfig{MaxLength: ruledLength, Timeout: ruledTimeout}
	c.Preemption = PreemptionConfig{LowerPriority: r.preempts, Grace: ruledGrace}
	c.Ceilings.Of = r.ceilings
	return c
}

// stay is one in the queue.
type stay struct {
	// came counts the stays that began in earlier steps; position is where in the journal
	// it began, which orders those of one step.
	came     int
	position uint64
	until    time.Time
	// left is how long it is held once it has a place, if it has a duration.
	left time.Duration
	// preempts is where victims make room for it, "" if they do not.
	preempts string
	victims  []ledger.PlacementRef
	// told is the position in the log at which they were told at the latest.
	told uint64
}

func (o *oracle) priority(r *told) int32 {
	if ceiling, ok := o.rules.ceilings[r.requester]; ok {
		return min(r.request.Priority, ceiling)
	}
	return r.request.Priority
}

// isBefore is whether a, which waits, comes before b, which may be new.
func (o *oracle) isBefore(a, b *told) bool {
	if p, q := o.priority(a), o.priority(b); p != q {
		return p > q
	}
	if b.waiting == nil || a.waiting.came != b.waiting.came {
		return b.waiting == nil || a.waiting.came < b.waiting.came
	}
	return a.waiting.position < b.waiting.position
}

func (r *told) mayWait() bool {
	return r.request.QueuePolicy == v1.ReservationRequestQueuePolicyQueue
}

func (o *oracle) countWaiting() int {
	n := 0
	for _, r := range o.told {
		if r.waiting != nil {
			n++
		}
	}
	return n
}

// holds is whether a provider still keeps capacity for a placement.
func (o *oracle) holds(ref ledger.PlacementRef) bool {
	r := o.told[ref.Name]
	// What was placed in this very step may be looked at later.
	return r != nil && (int(ref.Placement) > len(r.placements) || !r.placements[ref.Placement-1].gone)
}

// keeps is what is free once a placement is gone.
func (o *oracle) keeps(ref ledger.PlacementRef, resource corev1.ResourceName) int64 {
	r := o.told[ref.Name]
	if int(ref.Placement) > len(r.placements) {
		return r.amounts[resource]
	}
	return o.claims(r, int(ref.Placement)-1, resource)
}

// kept is what is kept on a lender for those for whom others make room there, and who
// are not left out: what each needs and its victims do not hold any more.
func (o *oracle) kept(id string, resource corev1.ResourceName, without func(*told) bool) int64 {
	var sum int64
	for _, r := range o.told {
		if r.waiting == nil || r.waiting.preempts != id || without(r) {
			continue
		}
		need := r.amounts[resource]
		for _, ref := range r.waiting.victims {
			if o.holds(ref) {
				need -= o.keeps(ref, resource)
			}
		}
		sum += max(need, 0)
	}
	return sum
}

// takes is whether a lender has room for amounts, beside what it keeps. From one for whom
// others have made room there, nothing is kept for those who come after it.
func (o *oracle) takes(id string, amounts quantity.Amounts, by *told) bool {
	without := func(other *told) bool {
		if by == nil || by.waiting == nil || by.waiting.preempts != id {
			return false
		}
		spent := !slices.ContainsFunc(by.waiting.victims, o.holds)
		return other == by || spent && !o.isBefore(other, by)
	}
	for resource, want := range amounts {
		if want > o.free(id, resource)-o.kept(id, resource, without) {
			return false
		}
	}
	return true
}

// mayServe is whether a lender may be asked for what waits.
func (o *oracle) mayServe(id string, r *told, now time.Time) bool {
	if id == r.requester || r.request.TargetClusterID != "" && r.request.TargetClusterID != id || !o.lends(id, now) || !o.reaches(r.requester, id, now) || o.suspended.keep(r.requester, id) {
		return false
	}
	return !slices.ContainsFunc(r.placements, func(p promise) bool { return p.provider == id && !p.mayReturn() })
}

// beyond is what a lender lacks, if it is below zero, to serve one that waits after
// some others have gone.
func (o *oracle) beyond(id string, resource corev1.ResourceName, r *told, gone []ledger.PlacementRef) int64 {
	l := o.lenders[id]
	room := l.amounts[resource] - l.own[resource] - o.promised(id, resource) - o.kept(id, resource, func(other *told) bool { return other == r }) - r.amounts[resource]
	for _, ref := range gone {
		room += o.keeps(ref, resource)
	}
	return room
}

func (o *oracle) suffices(id string, r *told, gone []ledger.PlacementRef) bool {
	for resource := range r.amounts {
		if o.beyond(id, resource, r, gone) < 0 {
			return false
		}
	}
	return true
}

// inTurn says who should have had the place that one gets.
func (o *oracle) inTurn(known *told, id string, now time.Time) error {
	// While others changed in this step too, it is not known what was there at that time.
	if len(o.pending) > 0 || known.waiting != nil && known.waiting.preempts == id {
		return nil
	}
	// It may have waited within this step, and have had one make room that left in it as well.
	if o.rules.preempts && known.mayWait() && known.waiting == nil && o.left[id] > 0 {
		return nil
	}
	for _, other := range o.told {
		if other.preemptsNow && other.waiting != nil && other.waiting.preempts == id {
			return nil
		}
	}
	if !o.takes(id, known.amounts, known) {
		return fmt.Errorf("it takes from %s what is kept there for another", id)
	}
	for _, other := range o.told {
		// What is kept for one here, nobody takes. Who came in this step may have come
		// after one that has waited within it, which nobody saw.
		waits := other != known && other.waiting != nil && other.waiting.preempts != id && other.waiting.came < o.earlier
		if waits && o.isBefore(other, known) && o.mayServe(id, other, now) && o.takes(id, other.amounts, other) {
			return fmt.Errorf("out of turn: %s of priority %d waits and comes before it", other.name, o.priority(other))
		}
	}
	return nil
}

// followQueue takes in whether a reservation waits, and what it is told.
func (o *oracle) followQueue(known *told, r *ledger.Reservation, now time.Time) error {
	known.toldNow = r.Notice != nil && (known.notice == nil || *known.notice != *r.Notice)
	known.notice = nil
	if r.Notice != nil {
		notice := *r.Notice
		known.notice = &notice
	}
	was, is := known.waiting, r.Waiting
	if was != nil && (is == nil || is.Position != was.position) && r.EndReason == "" {
		known.until, known.asked, known.waiting = now.Add(was.left), now, nil
		if known.granted.IsZero() {
			known.granted = now
		}
	}
	if was != nil && known.waiting == nil || r.EndReason != "" {
		o.leaves(was, r.Changed)
	}
	if r.EndReason != "" || is == nil {
		known.waiting = nil
		return nil
	}
	if known.waiting == nil {
		o.stays++
		known.waiting = &stay{came: o.earlier, position: is.Position, until: now.Add(ruledTimeout), left: known.duration}
		if seconds := known.request.QueueTimeoutSeconds; seconds > 0 {
			known.waiting.until = now.Add(time.Duration(seconds) * time.Second)
		}
		if len(known.placements) > 0 {
			known.waiting.left = max(known.until.Sub(now), time.Second)
		}
	}
	w := known.waiting
	if !known.mayWait() || !is.Until.Equal(w.until) {
		return fmt.Errorf("reservation %s (may wait: %t) waits until %s, it may until %s", known.name, known.mayWait(), is.Until, w.until)
	}
	if p := is.Preemption; p != nil && !slices.Equal(p.Victims, w.victims) {
		if w.preempts != p.Provider {
			o.leaves(w, r.Changed)
		}
		w.preempts, w.victims = p.Provider, p.Victims
		w.told = r.Changed
		known.preemptsNow = true
	}
	return nil
}

// leaves notes that nothing is kept any more for one that waited.
func (o *oracle) leaves(s *stay, position uint64) {
	if s != nil && s.preempts != "" {
		o.left[s.preempts] = max(o.left[s.preempts], position)
	}
}

// settled says what is wrong with the queue after a step. The broker may not act before
// an instant, until when it listens.
func (o *oracle) settled(now, listens time.Time) error {
	names := slices.Sorted(maps.Keys(o.told))
	for _, name := range names {
		if err := o.noticed(o.told[name], now); err != nil {
			return err
		}
	}
	for _, name := range names {
		r := o.told[name]
		if r.waiting == nil || now.Before(listens) {
			continue
		}
		if !now.Before(r.waiting.until) {
			return fmt.Errorf("reservation %s waits %s longer than it may", name, now.Sub(r.waiting.until))
		}
		for _, id := range slices.Sorted(maps.Keys(o.lenders)) {
			if err := o.neglects(id, r, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// neglects says whether a lender could serve one that waits, or could if others made
// room.
func (o *oracle) neglects(id string, r *told, now time.Time) error {
	switch {
	case !o.mayServe(id, r, now):
		return nil
	case o.takes(id, r.amounts, r):
		return fmt.Errorf("reservation %s waits for %v, and %s has room", r.name, r.amounts, id)
	case !o.rules.preempts || slices.ContainsFunc(r.waiting.victims, o.holds):
		return nil
	}
	var lower []ledger.PlacementRef
	for _, v := range o.told {
		if v.servedBy(id) && v.notice == nil && v.recall == nil && o.priority(v) < o.priority(r) {
			lower = append(lower, ledger.PlacementRef{Name: v.name, Placement: int32(v.newest() + 1)})
		}
	}
	if len(lower) > 0 && o.suffices(id, r, lower) {
		return fmt.Errorf("reservation %s of priority %d waits, and on %s %d of a lower one could make room", r.name, o.priority(r), id, len(lower))
	}
	return nil
}

// servedBy is whether a lender, and it alone, is to serve it.
func (r *told) servedBy(id string) bool {
	return r.ended == "" && r.standing() == 1 && r.placements[r.newest()].provider == id
}

// noticed says what is wrong with those who were told in this step to make room.
func (o *oracle) noticed(r *told, now time.Time) error {
	if r.toldNow {
		by := o.told[r.notice.By]
		r.toldNow = false
		switch {
		case by == nil || by.waiting == nil || !r.servedBy(by.waiting.preempts):
			return fmt.Errorf("reservation %s has to make room for %s, to which that is of no use", r.name, r.notice.By)
		case o.priority(r) >= o.priority(by):
			return fmt.Errorf("reservation %s of priority %d has to make room for one of priority %d", r.name, o.priority(r), o.priority(by))
		case !o.rules.preempts || !r.notice.Ends.Equal(now.Add(ruledGrace)):
			return fmt.Errorf("reservation %s has to make room (allowed: %t) in %s", r.name, o.rules.preempts, r.notice.Ends.Sub(now))
		}
	}
	toldOthers := r.preemptsNow
	r.preemptsNow = false
	// Who left there in the same step, after they were told, was in the way.
	if !toldOthers || r.waiting == nil || o.left[r.waiting.preempts] >= r.waiting.told {
		return nil
	}
	for i := range r.waiting.victims {
		others := slices.Delete(slices.Clone(r.waiting.victims), i, i+1)
		if o.suffices(r.waiting.preempts, r, others) {
			return fmt.Errorf("%s has to make room for %s without need", r.waiting.victims[i], r.name)
		}
	}
	return nil
}

// configure sets other rules.
func (m *machine) configure(c choose) (cause, error) {
	m.rules = rules{preempts: c(3) > 0}
	if c(2) == 0 {
		m.rules.ceilings = map[string]int32{"rome": int32(c(4))}
	}
	m.SetConfig(context.Background(), m.rules.config())
	return cause{}, nil
}

func nobody(*told) bool { return false }
