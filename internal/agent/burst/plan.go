package burst

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// Pause is the least time between two changes of a policy's requests.
	Pause = time.Minute
	// RetryAfter is how long a request that is over stays visible. Meanwhile no other one is created
	// for its group.
	RetryAfter = 5 * time.Minute
	// afterCordon is how long after the cordon of a node its pods are looked for: a scheduler whose cache
	// is behind may still bind a pod to it.
	afterCordon = 5 * time.Second
	// ungrantedPods is how many pods a provider admits for a request that does not name pods.
	ungrantedPods = 110
	// sparePods are requested in addition to the pods of the policy, because DaemonSets that
	// tolerate every taint also run on the virtual node. They make no difference as long as the sum
	// stays within ungrantedPods.
	sparePods = 10
	// maxPods is the largest number of pods in a pod shape.
	maxPods = 100_000
)

// Rules holds the settings of a policy and the last change of its requests.
type Rules struct {
	// Policy is the policy's name, with which the names of its requests begin.
	Policy           string
	After, IdleAfter time.Duration
	// Limit holds the largest amounts that all requests together may ask for. Resources that it
	// does not name have no limit.
	Limit quantity.Amounts
	// Last is the last change; its Request is empty if there was none.
	Last   Change
	LastAt time.Time
}

// Group is a set of waiting pods that have the same size and may run at the same places.
type Group struct {
	// ID is part of the names of the group's requests.
	ID string
	// Shape is what one pod requests, with itself as 1 of the resource "pods".
	Shape quantity.Amounts
	// Pods is the number of these pods, and Oldest is when the first of them began to wait.
	Pods   int64
	Oldest time.Time
	// RefusedUntil is until when no room is made for the group, because the API server has refused to
	// create or enlarge a request for it; zero if it has not.
	RefusedUntil time.Time
}

// State is the state of a request as far as a plan depends on it.
type State int

// Values of State.
const (
	// Settling means that the broker or the provider has neither granted nor refused the present
	// amounts of the request yet.
	Settling State = iota
	// Held means that the broker holds everything that the request asks for, so that the agent may enlarge the request.
	Held
	// Full means that the provider of the request has refused to enlarge the request.
	Full
	// Refused is like Full, but the request still asks for what was refused.
	Refused
	// Ending means that the request is being released.
	Ending
	// Over means that the request has failed or was released.
	Over
)

// Request is a ResourceRequest of the policy.
type Request struct {
	Name, Group string
	State       State
	// Shape is what one pod of its group requests; see Group.
	Shape quantity.Amounts
	// Asked holds the amounts that the request asks for, and Granted those that it was granted, nil
	// for none. Neither contains the resource "pods".
	Asked, Granted quantity.Amounts
	// OverAt is when a request in state Over was first seen so.
	OverAt time.Time
	// HasNode is true if the request has a virtual node. Cordoned is true if this node takes no
	// more pods, and Unusable also if it is not Ready. Used is the sum of the requests of the pods on the node, including the number of
	// pods.
	HasNode, Cordoned, Unusable bool
	Used                        quantity.Amounts
	// IdleSince is when the request became idle, zero if it is in use. A request is in use while a
	// pod is on its node or, unless the node is cordoned, while a pod of its group waits.
	IdleSince time.Time
}

// Change creates, enlarges or ends one request.
type Change struct {
	Action  agentv1alpha1.BurstAction
	Request string
	// Group is the group of the request, and Pods is the number of pods for which the request has
	// room after the change. Both are set only if the change creates or enlarges a request.
	Group string
	Pods  int64
}

// Plan lists what the caller has to do with the requests of a policy.
type Plan struct {
	// Change is the change to make now; nil if there is none. The caller records it before it makes
	// it. To end a request with a node means to cordon the node.
	Change *Change
	// Finish names the requests to delete because their nodes were cordoned by an earlier change
	// and are still empty.
	Finish []string
	// Forget names the requests to delete because they ended longer than RetryAfter ago.
	Forget []string
	// Revert names the requests whose spec must be set back to the granted amounts, because the
	// provider refused to enlarge them.
	Revert []string
	// Next is when to make the next plan if nothing happens before; zero if only an event can
	// change the plan.
	Next time.Time
	// Why is a condition reason: what the waiting pods wait for, or that none waits. Until is when
	// that wait ends, zero if unknown. About is the name of the request for which they wait, "" if
	// there is none.
	Why   string
	Until time.Time
	// With reason NoCapacity and without About, the API server has refused a request until then.
	About string
}

// MakePlan returns the plan for the time now. taken has the names of ResourceRequests in the
// namespace that do not belong to the policy.
func MakePlan(rules Rules, groups []Group, requests []Request, taken map[string]bool, now time.Time) Plan {
	p := planner{Rules: rules, groups: groups, requests: requests, taken: taken, now: now}
	p.tidyUp()
	p.serveGroups()
	p.endIdleRequest()
	return p.out
}

type planner struct {
	Rules
	groups   []Group
	requests []Request
	taken    map[string]bool
	now      time.Time
	out      Plan
}

// isDue reports whether the given time has come. If not, it makes sure that the next plan is made
// at that time or earlier.
func (p *planner) isDue(at time.Time) bool {
	if !at.After(p.now) {
		return true
	}
	if p.out.Next.IsZero() || at.Before(p.out.Next) {
		p.out.Next = at
	}
	return false
}

// tidyUp plans the steps that need no pause between them, because they neither add capacity nor
// take any away from pods.
func (p *planner) tidyUp() {
	for i := range p.requests {
		r := &p.requests[i]
		switch {
		case r.State == Over:
			if p.isDue(r.OverAt.Add(RetryAfter)) {
				p.out.Forget = append(p.out.Forget, r.Name)
			}
		case r.State == Refused:
			p.out.Revert = append(p.out.Revert, r.Name)
		case r.isIdle() && r.Cordoned && p.Last.Action == agentv1alpha1.BurstEnd && p.Last.Request == r.Name:
			if p.isDue(p.lastAt().Add(afterCordon)) {
				p.out.Finish = append(p.out.Finish, r.Name)
			}
		}
	}
}

func (r *Request) isIdle() bool { return r.State < Ending && !r.IdleSince.IsZero() }

func (p *planner) lastAt() time.Time { return pastChange(p.LastAt, p.now) }

// pastChange returns when a change was made; zero if that lies more than a pause in the future, because the clock was set
// back since: a pause that counts from then could last for hours. The clocks of two replicas may differ by less.
func pastChange(at, now time.Time) time.Time {
	if at.After(now.Add(Pause)) {
		return time.Time{}
	}
	return at
}

// planChange plans the change, and reports whether it did. A plan has at most one change, and the pause
// after the last change must be over; otherwise the plan is made again at the end of the pause.
func (p *planner) planChange(c Change) (made bool) {
	if p.out.Change != nil {
		return false
	}
	if last := p.lastAt(); !last.IsZero() && !p.isDue(last.Add(Pause)) {
		return false
	}
	p.out.Change = &c
	// This call only sets out.Next: a further change can be planned when the pause after this one
	// is over.
	p.isDue(p.now.Add(Pause))
	return true
}

// reasons lists the values of Plan.Why, the most important one for the user first.
var reasons = []string{
	agentv1alpha1.ReasonNoCapacity, agentv1alpha1.ReasonLimitReached, agentv1alpha1.ReasonNodeUnusable, agentv1alpha1.ReasonSettling, agentv1alpha1.ReasonPausing,
	agentv1alpha1.ReasonGathering, agentv1alpha1.ReasonRequested, agentv1alpha1.ReasonNothingWaits,
}

// noteReason sets Why, Until and About of the plan, unless the plan already has a more important
// reason.
func (p *planner) noteReason(why string, until time.Time, about string) {
	if p.out.Why == "" || slices.Index(reasons, why) < slices.Index(reasons, p.out.Why) {
		p.out.Why, p.out.Until, p.out.About = why, until, about
	}
}

// serveGroups plans a change for the first group that needs one. Groups whose oldest pod has waited
// longer come first.
func (p *planner) serveGroups() {
	p.noteReason(agentv1alpha1.ReasonNothingWaits, time.Time{}, "")
	groups := slices.SortedFunc(slices.Values(p.groups), func(a, b Group) int {
		return cmp.Or(a.Oldest.Compare(b.Oldest), strings.Compare(a.ID, b.ID))
	})
	for i := range groups {
		if groups[i].Pods > 0 {
			p.serveGroup(&groups[i])
		}
	}
}

// supply describes how far the requests of a group cover the group's waiting pods.
type supply struct {
	// missing is the number of waiting pods for which the requests have no room, even when all of
	// them are granted.
	missing int64
	// growable is a request that may be enlarged, settling is one that was not answered yet, unusable is
	// one whose node is not Ready, and over is the one that ended last. Each is nil if there is none.
	growable, settling, unusable, over *Request
}

func (p *planner) supplyOf(g *Group) supply {
	s := supply{missing: g.Pods}
	for i := range p.requests {
		r := &p.requests[i]
		switch {
		case r.Group != g.ID:
		case r.State == Over:
			if s.over == nil || r.OverAt.After(s.over.OverAt) {
				s.over = r
			}
		case r.State == Ending || r.Cordoned:
		default:
			s.missing -= r.freePods(g.Shape)
			if r.State == Settling {
				s.settling = r
			}
			if r.Unusable {
				s.unusable = r
			}
			if r.State == Held && s.growable == nil {
				s.growable = r
			}
		}
	}
	return s
}

// serveGroup plans a change for one group, or explains why its pods wait.
func (p *planner) serveGroup(g *Group) {
	s := p.supplyOf(g)
	if s.missing <= 0 && s.unusable != nil {
		p.noteReason(agentv1alpha1.ReasonNodeUnusable, time.Time{}, s.unusable.Name)
		return
	}
	if s.missing <= 0 {
		p.noteReason(agentv1alpha1.ReasonRequested, time.Time{}, "")
		return
	}
	if due := g.Oldest.Add(p.After); !p.isDue(due) {
		p.noteReason(agentv1alpha1.ReasonGathering, due, "")
		return
	}
	if s.settling != nil {
		p.noteReason(agentv1alpha1.ReasonSettling, time.Time{}, s.settling.Name)
		return
	}
	if s.over != nil {
		if until := s.over.OverAt.Add(RetryAfter); !p.isDue(until) {
			p.noteReason(agentv1alpha1.ReasonNoCapacity, until, s.over.Name)
			return
		}
	}
	if !g.RefusedUntil.IsZero() && !p.isDue(g.RefusedUntil) {
		p.noteReason(agentv1alpha1.ReasonNoCapacity, g.RefusedUntil, "")
		return
	}
	more := min(s.missing, p.roomFor(g.Shape))
	if more < s.missing {
		p.noteReason(agentv1alpha1.ReasonLimitReached, time.Time{}, "")
	}
	if more <= 0 {
		return
	}
	c := p.growOrCreate(g, s.growable, more)
	if !p.planChange(c) {
		p.noteReason(agentv1alpha1.ReasonPausing, p.lastAt().Add(Pause), c.Request)
	} else {
		p.noteReason(agentv1alpha1.ReasonSettling, time.Time{}, c.Request)
	}
}

// growOrCreate returns the change that makes room for more pods of a group: it enlarges a request that
// may grow, or creates another one.
func (p *planner) growOrCreate(g *Group, growable *Request, more int64) Change {
	c := Change{Action: agentv1alpha1.BurstCreate, Group: g.ID, Pods: more}
	if growable != nil && growable.askedPods() < maxPods {
		c.Action, c.Request, c.Pods = agentv1alpha1.BurstGrow, growable.Name, growable.askedPods()+more
	} else {
		c.Request = p.freeName(g.ID)
	}
	c.Pods = min(c.Pods, maxPods)
	return c
}

// freeName returns a name for a new request of a group. It depends only on the requests that exist,
// so that an agent that was killed after it created the request does not create another one.
func (p *planner) freeName(group string) string {
	for n := 1; ; n++ {
		name := p.Policy + "-" + group + "-" + strconv.Itoa(n)
		if !p.taken[name] && !slices.ContainsFunc(p.requests, func(r Request) bool { return r.Name == name }) {
			return name
		}
	}
}

// roomFor returns how many more pods of a shape the limit allows.
func (p *planner) roomFor(shape quantity.Amounts) int64 {
	sum := Requested(p.requests)
	room := int64(maxPods)
	for name, limit := range p.Limit {
		if each := shape[name]; each > 0 {
			room = min(room, max(limit-sum[name], 0)/each)
		}
	}
	return room
}

// Requested returns the sum of the larger of the requested and the granted amounts over all
// requests that are not over. Its resource "pods" is the number of pods for which they have room.
func Requested(requests []Request) quantity.Amounts {
	sum := quantity.Amounts{}
	for i := range requests {
		if r := &requests[i]; r.State != Over {
			held := r.Asked.Max(r.Granted)
			sum.AddInPlace(held)
			sum[corev1.ResourcePods] += podsIn(held, r.Shape)
		}
	}
	return sum
}

// askedPods returns the number of pods of its group for which the request asks.
func (r *Request) askedPods() int64 { return podsIn(r.Asked, r.Shape) }

// Room returns the number of pods of its group for which the request has room or, while it is not
// answered, will have room if it is granted.
func (r *Request) Room() int64 { return podsIn(r.heldAmounts(), r.Shape) }

// heldAmounts returns the granted amounts, or the requested ones while they are not answered or nothing is
// granted.
func (r *Request) heldAmounts() quantity.Amounts {
	if r.State == Settling || r.Granted == nil {
		return r.Asked
	}
	return r.Granted
}

// freePods returns how many more pods of a shape fit into the request.
func (r *Request) freePods(shape quantity.Amounts) int64 {
	held := r.heldAmounts()
	free := PodSlots(podsIn(held, r.Shape)) - r.Used[corev1.ResourcePods]
	for name, each := range shape {
		if each > 0 && name != corev1.ResourcePods {
			free = min(free, (held[name]-r.Used[name])/each)
		}
	}
	return max(free, 0)
}

// PodSlots returns how many pods the virtual node admits if the request asks for the given number
// of pods.
func PodSlots(pods int64) int64 {
	if pods+sparePods <= ungrantedPods {
		return ungrantedPods
	}
	return pods + sparePods
}

// NamesPods reports whether a request for the given number of pods must name the resource "pods",
// because a provider admits only ungrantedPods otherwise.
func NamesPods(pods int64) bool { return PodSlots(pods) > ungrantedPods }

// podsIn returns how many whole pods of a shape the amounts have room for.
func podsIn(amounts, shape quantity.Amounts) int64 {
	pods := int64(math.MaxInt64)
	for name, each := range shape {
		if each > 0 && name != corev1.ResourcePods {
			pods = min(pods, amounts[name]/each)
		}
	}
	if pods == math.MaxInt64 {
		return 0
	}
	return pods
}

// endIdleRequest plans the end of the request that has been idle longest, if it has been idle for
// IdleAfter.
func (p *planner) endIdleRequest() {
	var first *Request
	for i := range p.requests {
		r := &p.requests[i]
		if !r.isIdle() || slices.Contains(p.out.Finish, r.Name) || !p.isDue(r.IdleSince.Add(p.IdleAfter)) {
			continue
		}
		if first == nil || r.IdleSince.Before(first.IdleSince) || r.IdleSince.Equal(first.IdleSince) && r.Name < first.Name {
			first = r
		}
	}
	if first != nil {
		p.planChange(Change{Action: agentv1alpha1.BurstEnd, Request: first.Name})
	}
}
