package burst

import (
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ShrinkAfter is how long a buffer must have had more free room than it keeps before its request shrinks, by the least
// surplus of this time. Pods that are replaced one by one leave and come back within it.
const ShrinkAfter = 5 * time.Minute

// Buffer holds the settings of a CapacityBuffer.
type Buffer struct {
	// Replicas is the number of pods for which room is kept free; nil for as many as Limit allows.
	Replicas *int64
	// Limit holds the largest amounts that the buffer's request may ask for, for used and free room together. Resources
	// that it does not name have no limit.
	Limit quantity.Amounts
	// Shape is what one pod requests, with itself as 1 of the resource "pods". A request keeps the shape that it was
	// created with.
	Shape quantity.Amounts
}

// Pool is the ResourceRequest of a CapacityBuffer.
type Pool struct {
	Request
	// Least is the number of pods in the shapes that the request was created with. The broker refuses to shrink it below
	// their sum.
	Least int64
	// ChangedAt is when the buffer last created or resized the request.
	ChangedAt time.Time
	// Guests is the number of pods of workloads on the nodes, also of those that request nothing.
	Guests  int64
	Surplus Surplus
}

// Surplus remembers how much more free room a request has had than its buffer keeps. Arriving pods do not restart the
// time: a pool that became too large shrinks although short pods come and go, by the room that none of them used.
type Surplus struct {
	// Since is when the surplus began, zero if there is none. Least is the smallest surplus since then, in pods.
	Since time.Time
	Least int64
}

// Observe records that the request now has free room for this many pods more than its buffer keeps.
func (s *Surplus) Observe(surplus int64, now time.Time) {
	switch {
	case surplus == 0:
		*s = Surplus{}
	case s.Since.IsZero():
		*s = Surplus{now, surplus}
	default:
		s.Least = min(s.Least, surplus)
	}
}

// Values of BufferPlan.Action.
const (
	// CreatePool creates the request, with room for BufferPlan.Pods pods.
	CreatePool = "Create"
	// ResizePool enlarges or shrinks the request to room for BufferPlan.Pods pods.
	ResizePool = "Resize"
	// RevertPool sets the request back to what was granted, because its provider refused to enlarge it.
	RevertPool = "Revert"
	// DeletePool deletes the request because it is over, or because it is unused and cannot shrink enough. In the second
	// case a smaller one follows, unless the buffer asks for no room at all.
	DeletePool = "Delete"
)

// BufferPlan is what to do for a CapacityBuffer now.
type BufferPlan struct {
	// Action is "" if there is nothing to do.
	Action string
	// Pods is for how many pods the request has room after the action.
	Pods int64
	// Why is a condition reason: why less room is free than is to be kept; Requested if enough is. Until is when that
	// wait ends, zero if unknown.
	Why   string
	Until time.Time
}

// SurplusOf returns how many pods fit into the free room of the request beyond those for which the buffer keeps room.
func (b *Buffer) SurplusOf(p *Pool) int64 {
	if p == nil || p.State != Held && p.State != Full {
		return 0
	}
	return max(p.askedPods()-b.wantedPods(p), 0)
}

// Free returns the number of pods that fit into the free room of the request and can run there. While a change is not
// answered, it counts only room that the request has before and after it.
func (b *Buffer) Free(p *Pool) int64 {
	if p == nil || p.Granted == nil || p.State >= Ending || p.Unusable {
		return 0
	}
	granted := p.Request
	granted.State = Held
	return min(p.freePods(p.Shape), granted.freePods(p.Shape))
}

// mostPods returns the number of pods of a shape that the limit allows, and false if the limit names nothing that they
// request.
func (b *Buffer) mostPods(shape quantity.Amounts) (most int64, limited bool) {
	most = maxPods
	for name, limit := range b.Limit {
		if each := shape[name]; each > 0 {
			most, limited = min(most, limit/each), true
		}
	}
	return most, limited
}

// LimitsNothing reports whether the buffer has a limit, but for no resource that its pods request.
func (b *Buffer) LimitsNothing() bool {
	_, limited := b.mostPods(b.Shape)
	return len(b.Limit) > 0 && !limited
}

// wantedPods returns for how many pods the request should have room: those whose room is used, and those for which room
// is kept, as far as the limit allows.
func (b *Buffer) wantedPods(p *Pool) int64 {
	used, shape := int64(0), b.Shape
	if p != nil {
		used, shape = max(p.Room()-p.freePods(p.Shape), min(p.Guests, 1)), p.Shape
	}
	most, limited := b.mostPods(shape)
	switch {
	case b.Replicas != nil:
		most = min(used+*b.Replicas, most)
	case !limited: // the request was created for other pods than those of the present limit
		most = used
	}
	if used > 0 { // pods would lose their node if a smaller request replaced this one
		most = max(most, p.Least)
	}
	return max(used, most)
}

// PlanBuffer returns what to do for a buffer at the time now. p is nil if the buffer has no request.
//
//   - The request never grows beyond the limit, and never shrinks below what pods use.
//   - It changes at most once in a minute (Pause), and a refused change is repeated after RetryAfter.
func PlanBuffer(b *Buffer, p *Pool, now time.Time) BufferPlan {
	wanted := b.wantedPods(p)
	if p == nil {
		if wanted == 0 {
			return BufferPlan{Why: b.reasonOfEnough(0)}
		}
		return BufferPlan{Action: CreatePool, Pods: wanted, Why: agentv1alpha1.ReasonSettling}
	}
	switch p.State {
	case Over:
		if until := p.OverAt.Add(RetryAfter); until.After(now) {
			return BufferPlan{Why: agentv1alpha1.ReasonNoCapacity, Until: until}
		}
		return BufferPlan{Action: DeletePool, Why: agentv1alpha1.ReasonSettling}
	case Refused:
		return BufferPlan{Action: RevertPool, Why: agentv1alpha1.ReasonNoCapacity, Until: p.ChangedAt.Add(RetryAfter)}
	case Settling, Ending:
		if b.Replicas != nil && b.Free(p) > 0 && b.Free(p) >= *b.Replicas {
			return BufferPlan{Why: agentv1alpha1.ReasonRequested} // the request shrinks
		}
		return BufferPlan{Why: agentv1alpha1.ReasonSettling}
	}
	changed := pastChange(p.ChangedAt, now)
	due, waits := changed.Add(Pause), agentv1alpha1.ReasonPausing
	if p.State == Full {
		due, waits = changed.Add(RetryAfter), agentv1alpha1.ReasonNoCapacity
	}
	switch asked := p.askedPods(); {
	case wanted > asked:
		if due.After(now) {
			return BufferPlan{Why: waits, Until: due}
		}
		return BufferPlan{Action: ResizePool, Pods: wanted, Why: agentv1alpha1.ReasonSettling}
	case wanted < asked && !p.Surplus.Since.IsZero() && !p.Surplus.Since.Add(ShrinkAfter).After(now) && !due.After(now):
		if wanted = asked - p.Surplus.Least; wanted < max(p.Least, 1) {
			return BufferPlan{Action: DeletePool, Why: agentv1alpha1.ReasonSettling}
		}
		return BufferPlan{Action: ResizePool, Pods: wanted, Why: agentv1alpha1.ReasonRequested}
	}
	if p.Unusable {
		return BufferPlan{Why: agentv1alpha1.ReasonNodeUnusable}
	}
	return BufferPlan{Why: b.reasonOfEnough(b.Free(p))}
}

// reasonOfEnough returns why no more room is requested although only this number of pods fit into the free room.
func (b *Buffer) reasonOfEnough(free int64) string {
	if b.Replicas != nil && free < *b.Replicas {
		return agentv1alpha1.ReasonLimitReached
	}
	return agentv1alpha1.ReasonRequested
}
