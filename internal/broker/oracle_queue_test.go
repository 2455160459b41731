package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// rules is the configuration that an administrator has set.
type rules struct {
	preempts bool
	limits   map[string]int32
	// paused is true if the queue is paused. drains holds the drained clusters. drainedAt holds the
	// times since which reservations have to leave these clusters.
	paused    bool
	drains    map[string]drains.Drain
	drainedAt map[string]time.Time
	// list is the list price of a core in EUR, "" for none.
	list string
	// idle bounds how long reservations may be idle, nil for no bound.
	idle *ledger.IdlePolicy
	// generation counts the configurations that were set.
	generation int64
}

const (
	ruledLength  = 6
	ruledTimeout = 5 * time.Minute
	ruledGrace   = 30 * time.Second
)

func (r rules) config() settings.Config {
	c := settings.Default()
	c.Queue = queueing.Config{MaxLength: ruledLength, Timeout: ruledTimeout, Paused: r.paused}
	c.Drains, c.Idle = r.drains, r.idle
	c.Preemption = queueing.PreemptionConfig{LowerPriority: r.preempts, Grace: ruledGrace}
	c.PriorityLimits.Of = r.limits
	c.Document, c.Generation, c.By = r.document(), r.generation, ledger.Administrator(fmt.Sprint("admin-", r.generation))
	return c
}

// document returns the rules as the journal stores them.
func (r rules) document() json.RawMessage {
	document := map[string]any{"preempts": r.preempts, "limits": r.limits, "generation": r.generation, "paused": r.paused, "drains": len(r.drains)}
	if r.list != "" {
		document["accounts"] = map[string]any{"listPrice": map[string]string{"currency": "EUR", "cpuCost": r.list}}
	}
	text, err := json.Marshal(document)
	if err != nil {
		panic(err)
	}
	return text
}

// stay is what the oracle knows about a reservation while it waits in the queue.
type stay struct {
	// came is how many stays began in earlier steps. position is where the stay begins in the
	// journal, which orders the stays of one step.
	came     int
	position uint64
	until    time.Time
	// left is how long the reservation is held once it is granted, if it has a duration.
	left time.Duration
	// preempts is the lender on which victims make room for the reservation; "" for none.
	preempts string
	victims  []ledger.PlacementRef
	// told is the journal position at which the victims last got their notice.
	told uint64
}

func (o *oracle) priority(r *told) int32 {
	if limit, ok := o.rules.limits[r.requester]; ok {
		return min(r.request.Priority, limit)
	}
	return r.request.Priority
}

// isBefore reports whether a, a waiting reservation, is served before b, which waits too or is new.
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

// holds reports whether a provider still holds capacity for a placement.
func (o *oracle) holds(ref ledger.PlacementRef) bool {
	r := o.told[ref.Name]
	// The oracle may not have followed a placement of this step yet.
	return r != nil && (int(ref.Placement) > len(r.placements) || !r.placements[ref.Placement-1].gone)
}

// keeps returns the amount that becomes free once a placement is gone.
func (o *oracle) keeps(ref ledger.PlacementRef, resource corev1.ResourceName) int64 {
	r := o.told[ref.Name]
	if int(ref.Placement) > len(r.placements) {
		return r.amounts[resource]
	}
	return o.claims(r, int(ref.Placement)-1, resource)
}

// kept returns the capacity of a lender that is reserved for preemptors. The function without
// selects the preemptors that do not count. For each other one, the capacity is its need minus the
// amounts that its victims still hold.
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

// takes reports whether a lender has room for amounts in addition to reserved capacity. For a
// preemptor whose victims have left, the capacity of later preemptors does not count as
// reserved.
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

// mayServe reports whether a lender may be chosen for a waiting reservation.
func (o *oracle) mayServe(id string, r *told, now time.Time) bool {
	if _, cordoned := o.rules.drains[id]; cordoned || id == r.requester || r.request.TargetClusterID != "" && r.request.TargetClusterID != id || !o.lends(id, now) || !o.reaches(r.requester, id, now) || o.suspended.keep(r.requester, id) {
		return false
	}
	return r.keptFrom(id, now) == "" && o.affords(r.request, id, r.amounts) && o.suits(r.request, id)
}

// beyond returns the capacity that a lender has left after the given placements are gone and
// the waiting reservation is served; it is negative for a shortage.
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

// inTurn returns an error if another reservation had a prior right to a grant.
func (o *oracle) inTurn(known *told, id string, now time.Time) error {
	// If other reservations changed in this step too, the state at the time of the grant is
	// unknown.
	if !o.isAlone(known) || known.waiting != nil && known.waiting.preempts == id {
		return nil
	}
	// The reservation may have waited within this step, and its victim may have left in the same
	// step.
	if o.rules.preempts && known.mayWait() && known.waiting == nil && o.left[id] > 0 {
		return nil
	}
	for _, other := range o.told {
		if other.preemptsNow && other.waiting != nil && other.waiting.preempts == id {
			return nil
		}
	}
	onNewNodes := !o.takes(id, known.amounts, known)
	if onNewNodes && !o.creates(id, known.amounts, known.timeLeft(now)) {
		return fmt.Errorf("it takes from %s what is kept there for another", id)
	}
	if o.rules.paused && len(known.placements) > 0 {
		return nil // the reservation had to leave its provider, so it may pass the requests in the paused queue
	}
	for _, other := range o.told {
		// Capacity reserved for a preemptor on this lender is not available to others. A
		// reservation that began to wait in this step is skipped: the order within the step is
		// unknown.
		waits := other != known && other.waiting != nil && other.waiting.preempts != id && other.waiting.came < o.earlier
		if waits && o.isBefore(other, known) && o.mayServe(id, other, now) && (o.takes(id, other.amounts, other) || onNewNodes && o.creates(id, other.amounts, other.timeLeft(now))) {
			return fmt.Errorf("out of turn: %s of priority %d waits and comes before it", other.name, o.priority(other))
		}
	}
	return nil
}

// followQueue notes whether a reservation waits, and its notices.
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

// leaves notes the position at which capacity of a lender stopped being reserved for a preemptor.
func (o *oracle) leaves(s *stay, position uint64) {
	if s != nil && s.preempts != "" {
		o.left[s.preempts] = max(o.left[s.preempts], position)
	}
}

// settled returns an error if the queue is wrong after a step. Until the time listens, the broker
// may postpone grants.
func (o *oracle) settled(now, listens time.Time) error {
	names := slices.Sorted(maps.Keys(o.told))
	for _, name := range names {
		if err := o.noticed(o.told[name], now); err != nil {
			return err
		}
	}
	for _, name := range names {
		r := o.told[name]
		if r.waiting == nil || now.Before(listens) || o.rules.paused {
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

// neglects returns an error if a lender could serve a waiting reservation now, or if victims there
// could make room for it.
func (o *oracle) neglects(id string, r *told, now time.Time) error {
	switch {
	case !o.mayServe(id, r, now):
		return nil
	case o.takes(id, r.amounts, r):
		return fmt.Errorf("reservation %s waits for %v, and %s has room", r.name, r.amounts, id)
	case o.creates(id, r.amounts, r.timeLeft(now)):
		return fmt.Errorf("reservation %s waits for %v, and %s can create nodes", r.name, r.amounts, id)
	case !o.rules.preempts || slices.ContainsFunc(r.waiting.victims, o.holds) || o.dependsOnNodes(r.request, id):
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

// servedBy reports whether this lender alone has a standing placement of the reservation.
func (r *told) servedBy(id string) bool {
	return r.ended == "" && r.standing() == 1 && r.placements[r.newest()].provider == id
}

// noticed returns an error if a notice of this step is wrong.
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
	// A placement that left the lender in this step may still have been in the way when the victims
	// got their notices.
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

// configure sets a random configuration.
func (m *machine) configure(c choose) (cause, error) {
	next := m.rules
	next.preempts, next.limits = c(3) > 0, map[string]int32{}
	if c(2) == 0 {
		next.limits = map[string]int32{"rome": int32(c(4))}
	}
	next.idle = oneOf(c, nil, nil, &ledger.IdlePolicy{After: 2 * time.Minute, Release: true}, &ledger.IdlePolicy{After: time.Minute})
	next.list = oneOf(c, m.rules.list, m.rules.list, "", "2", "7")
	return cause{}, m.setRules(next)
}

func (m *machine) setRules(next rules) error {
	next.generation = m.rules.generation + 1
	m.rules = next
	m.SetConfig(context.Background(), m.rules.config())
	return m.configuredRightly()
}

// configuredRightly checks that the book has the configuration in force.
func (m *machine) configuredRightly() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if got, want := m.session.book.Configuration().Document, m.rules.document(); string(got) != string(want) {
		return fmt.Errorf("the book has the configuration %s, in force is %s", got, want)
	}
	return nil
}

// isAlone reports whether no other reservation changed in this step that the oracle has not examined.
func (o *oracle) isAlone(r *told) bool {
	return len(o.pending) == 0 || len(o.pending) == 1 && o.pending[r.name]
}

func nobody(*told) bool { return false }
