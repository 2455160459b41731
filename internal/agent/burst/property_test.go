package burst

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// oracle returns for how many more pods of group g capacity should be requested. Unlike MakePlan it does not divide
// sums: it puts one waiting pod after the other onto the nodes, and then requests capacity for one more pod after the
// other until the limit would be exceeded.
func oracle(limit quantity.Amounts, g Group, requests []Request) int64 {
	fits := func(amounts quantity.Amounts, within quantity.Amounts) bool {
		for name, amount := range amounts {
			if have, named := within[name]; named && amount > have {
				return false
			}
		}
		return true
	}
	var missing int64
	nodes := make([]quantity.Amounts, 0, len(requests))
	total := quantity.Amounts{}
	for _, r := range requests {
		if r.State == Over {
			continue
		}
		asked := r.Asked.Clone()
		for name, amount := range r.Granted {
			asked[name] = max(asked[name], amount)
		}
		each := r.Shape.Clone()
		delete(each, corev1.ResourcePods)
		for n := asked; fits(each, n); n = n.Sub(each) {
			total[corev1.ResourcePods]++
		}
		total = total.Add(asked)
		if r.Group == g.ID && r.State != Ending && !r.Cordoned {
			held := r.Asked
			if r.State != Settling && r.Granted != nil {
				held = r.Granted
			}
			nodes = append(nodes, held.Sub(r.Used).Add(quantity.Amounts{corev1.ResourcePods: 110}))
		}
	}
	for range g.Pods {
		at := slices.IndexFunc(nodes, func(free quantity.Amounts) bool { return fits(g.Shape, free) })
		if at < 0 {
			missing++
			continue
		}
		nodes[at] = nodes[at].Sub(g.Shape)
	}
	var more int64
	for more < missing && fits(total.Add(g.Shape), limit) {
		total = total.Add(g.Shape)
		more++
	}
	return more
}

func TestAmountsEqualThoseOfAnOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := quantity.Amounts{
			corev1.ResourceCPU: rapid.Int64Range(1, 4).Draw(t, "cpu"), corev1.ResourceMemory: rapid.Int64Range(1, 4).Draw(t, "memory"), corev1.ResourcePods: 1,
		}
		limit := quantity.Amounts{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
			if rapid.Bool().Draw(t, "limits "+string(name)) {
				limit[name] = rapid.Int64Range(0, 60).Draw(t, string(name))
			}
		}
		times := func(pods int64) quantity.Amounts {
			a := shape.Times(pods)
			delete(a, corev1.ResourcePods)
			return a
		}
		g := Group{ID: groupA, Shape: shape, Pods: rapid.Int64Range(1, 20).Draw(t, "waiting"), Oldest: noon.Add(-time.Hour)}
		var requests []Request
		for i := range rapid.IntRange(0, 4).Draw(t, "requests") {
			asked := rapid.Int64Range(1, 8).Draw(t, "asked")
			r := Request{
				Name: fmt.Sprintf("p-%s-%d", groupA, i+1), Group: rapid.SampledFrom([]string{groupA, groupB}).Draw(t, "group"), Shape: shape, Asked: times(asked), HasNode: true,
				State: rapid.SampledFrom([]State{Held, Full, Ending, Over}).Draw(t, "state"), Cordoned: rapid.Bool().Draw(t, "cordoned"),
				OverAt: noon.Add(-time.Hour),
			}
			granted := rapid.Int64Range(1, asked).Draw(t, "granted")
			r.Granted = times(granted)
			r.Used = shape.Times(rapid.Int64Range(0, granted).Draw(t, "used"))
			requests = append(requests, r)
		}
		r := Rules{Policy: "p", IdleAfter: time.Hour, Limit: limit}
		var got int64
		if c := MakePlan(r, []Group{g}, requests, nil, noon).Change; c != nil {
			got = c.Pods
			if c.Action == agentv1alpha1.BurstGrow {
				i := slices.IndexFunc(requests, func(r Request) bool { return r.Name == c.Request })
				got -= requests[i].askedPods()
			}
		}
		if want := oracle(limit, g, requests); got != want {
			t.Fatalf("room for %d more pods is requested, want %d", got, want)
		}
	})
}

// simulation is a cluster whose scheduler binds waiting pods to virtual nodes, and a broker that
// grants requests after a while.
type simulation struct {
	t     *rapid.T
	now   time.Time
	rules Rules
	clock IdleClock
	// latency is how long the broker takes to grant a request. mostPods is the largest number of pods that it grants.
	latency  time.Duration
	mostPods int64
	// waiting holds, for each waiting pod, the time at which it began to wait.
	waiting  []time.Time
	requests []*simulated
	changes  []time.Time
	created  int
	// races makes pods come between the decision to end a request and the cordon of its node.
	races bool
}

type simulated struct {
	Request
	running  int64
	arrivals uint64
	// changedAt is when the request was last created or enlarged.
	changedAt time.Time
}

// bind puts waiting pods onto nodes that take them.
func (s *simulation) bind() {
	for _, r := range s.requests {
		for len(s.waiting) > 0 && r.HasNode && !r.Cordoned && r.running < podsIn(r.Granted, small) {
			r.running++
			r.arrivals++
			s.waiting = s.waiting[1:]
		}
	}
}

func (s *simulation) look() {
	var groups []Group
	if len(s.waiting) > 0 {
		groups = []Group{{ID: groupA, Shape: small, Pods: int64(len(s.waiting)), Oldest: slices.MinFunc(s.waiting, time.Time.Compare)}}
	}
	views := make([]Request, len(s.requests))
	for i, r := range s.requests {
		if !s.now.Before(r.changedAt.Add(s.latency)) && r.State == Settling {
			r.State, r.HasNode, r.Granted = Held, true, r.Asked
			if most := amounts(s.mostPods); r.askedPods() > s.mostPods {
				r.State, r.Granted = Refused, most
			}
		}
		r.Used = used(r.running)
		r.IdleSince = s.clock.Observe(r.Name, r.running > 0 || !r.Cordoned && len(s.waiting) > 0, r.arrivals, s.now)
		views[i] = r.Request
	}
	plan := MakePlan(s.rules, groups, views, nil, s.now)
	for _, name := range plan.Revert {
		r := s.find(name)
		r.Asked, r.State = r.Granted, Full
	}
	for _, name := range plan.Finish {
		if r := s.find(name); r.running == 0 { // the agent checks this at the API server before it ends a request
			s.remove(r)
		}
	}
	if c := plan.Change; c != nil {
		if n := len(s.changes); n > 0 && s.now.Sub(s.changes[n-1]) < Pause {
			s.t.Fatalf("%s: a change %s after the last one", s.now, s.now.Sub(s.changes[n-1]))
		}
		s.changes = append(s.changes, s.now)
		s.rules.Last, s.rules.LastAt = *c, s.now
		// The agent may be killed after it has recorded a change and before it makes the change.
		if rapid.IntRange(0, 9).Draw(s.t, "killed") > 0 {
			s.apply(c)
		}
	}
	sum := int64(0)
	for _, r := range s.requests {
		sum += max(r.Asked[corev1.ResourceCPU], r.Granted[corev1.ResourceCPU])
	}
	if limit := s.rules.Limit[corev1.ResourceCPU]; sum > limit {
		s.t.Fatalf("%s: requests for %d of %d millicores", s.now, sum, limit)
	}
}

func (s *simulation) apply(c *Change) {
	switch c.Action {
	case agentv1alpha1.BurstCreate:
		s.created++
		s.requests = append(s.requests, &simulated{Request: Request{Name: c.Request, Group: c.Group, Shape: small, Asked: amounts(c.Pods)}, changedAt: s.now})
	case agentv1alpha1.BurstGrow:
		r := s.find(c.Request)
		r.Asked, r.State, r.changedAt = amounts(c.Pods), Settling, s.now
	case agentv1alpha1.BurstEnd:
		r := s.find(c.Request)
		if r.HasNode {
			if s.races && rapid.Bool().Draw(s.t, "a pod comes before the cordon") {
				s.waiting = append(s.waiting, s.now)
				s.bind()
			}
			r.Cordoned = true
			return
		}
		s.remove(r)
	}
}

func (s *simulation) find(name string) *simulated {
	i := slices.IndexFunc(s.requests, func(r *simulated) bool { return r.Name == name })
	if i < 0 {
		s.t.Fatalf("%s: a plan for request %q, which does not exist", s.now, name)
	}
	return s.requests[i]
}

func (s *simulation) remove(r *simulated) {
	if r.running > 0 {
		s.t.Fatalf("%s: request %q ends with %d pods on its node", s.now, r.Name, r.running)
	}
	s.requests = slices.DeleteFunc(s.requests, func(o *simulated) bool { return o == r })
}

func newSimulation(t *rapid.T) *simulation {
	return &simulation{
		t: t, now: noon, latency: time.Duration(rapid.IntRange(1, 120).Draw(t, "latency")) * time.Second, mostPods: 1000,
		rules: rules(rapid.Int64Range(1, 40).Draw(t, "limit"), func(r *Rules) {
			r.After = time.Duration(rapid.IntRange(0, 60).Draw(t, "after")) * time.Second
			r.IdleAfter = time.Duration(rapid.IntRange(10, 300).Draw(t, "idleAfter")) * time.Second
		}),
	}
}

// Whatever pods come and go, a policy makes at most one change a minute, never asks for more than
// its limit, and ends no request with a pod. In the end everything is given back.
func TestRulesHoldForAnyLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		s.races = true
		s.mostPods = rapid.Int64Range(1, 20).Draw(t, "provider")
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"come", "leave", "give up", "pass", "pass"}).Draw(t, "event") {
			case "come":
				for range rapid.IntRange(1, 20).Draw(t, "pods") {
					s.waiting = append(s.waiting, s.now)
				}
			case "leave":
				for _, r := range s.requests {
					r.running = rapid.Int64Range(0, r.running).Draw(t, "running")
				}
			case "give up":
				s.waiting = nil
			}
			s.now = s.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			s.bind()
			s.look()
		}
		s.waiting, s.races = nil, false
		for range 1000 {
			for _, r := range s.requests {
				r.running = 0
			}
			s.now = s.now.Add(10 * time.Second)
			s.look()
		}
		if len(s.requests) > 0 {
			t.Fatalf("%d requests are never given back", len(s.requests))
		}
	})
}

// A load that comes and goes causes at most one request per period.
func TestSquareWaveCausesOneRequestPerPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSimulation(t)
		pods := rapid.IntRange(1, 60).Draw(t, "pods")
		on, off := rapid.IntRange(1, 600).Draw(t, "on"), rapid.IntRange(1, 600).Draw(t, "off")
		for period := range 3 {
			before := s.created
			for second := range on + off {
				if second == 0 {
					for range pods {
						s.waiting = append(s.waiting, s.now)
					}
				}
				if second == on {
					s.waiting = nil
					for _, r := range s.requests {
						r.running = 0
					}
				}
				s.now = s.now.Add(time.Second)
				s.bind()
				s.look()
			}
			if made := s.created - before; made > 1 {
				t.Fatalf("%d requests in period %d", made, period)
			}
		}
	})
}
