package burst

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	groupA = "aaaaaaaa"
	groupB = "bbbbbbbb"
)

// small is a pod with one core and 1 KiB of memory.
var small = quantity.Amounts{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 1024, corev1.ResourcePods: 1}

// amounts returns what a number of small pods request, without the pods themselves.
func amounts(pods int64) quantity.Amounts {
	return quantity.Amounts{corev1.ResourceCPU: 1000 * pods, corev1.ResourceMemory: 1024 * pods}
}

// used returns what a number of small pods use.
func used(pods int64) quantity.Amounts {
	a := amounts(pods)
	a[corev1.ResourcePods] = pods
	return a
}

func rules(cores int64, edit ...func(*Rules)) Rules {
	r := Rules{Policy: "p", After: 30 * time.Second, IdleAfter: 10 * time.Minute, Limit: quantity.Amounts{corev1.ResourceCPU: 1000 * cores}}
	for _, f := range edit {
		f(&r)
	}
	return r
}

func changedAt(at time.Time, c Change) func(*Rules) {
	return func(r *Rules) { r.Last, r.LastAt = c, at }
}

func waiting(pods int64, since time.Duration) Group {
	return Group{ID: groupA, Shape: small, Pods: pods, Oldest: noon.Add(-since)}
}

// refused returns a group for which the API server has refused a request a short time ago.
func refused(g Group) Group {
	g.RefusedUntil = noon.Add(Pause)
	return g
}

// held returns a request of group A whose node has room for the given number of pods. The parameter
// running is how many of them run.
func held(pods, running int64, edit ...func(*Request)) Request {
	r := Request{
		Name: "p-aaaaaaaa-1", Group: groupA, State: Held, Shape: small, Asked: amounts(pods), Granted: amounts(pods), HasNode: true, Used: used(running),
	}
	for _, f := range edit {
		f(&r)
	}
	return r
}

func in(s State) func(*Request) { return func(r *Request) { r.State = s } }

func idleFor(d time.Duration) func(*Request) {
	return func(r *Request) { r.IdleSince = noon.Add(-d) }
}

func overFor(d time.Duration) func(*Request) {
	return func(r *Request) { r.State, r.OverAt = Over, noon.Add(-d) }
}

func TestPlan(t *testing.T) {
	create := func(name string, pods int64) *Change {
		return &Change{Action: agentv1alpha1.BurstCreate, Request: name, Group: groupA, Pods: pods}
	}
	grow := func(pods int64) *Change {
		return &Change{Action: agentv1alpha1.BurstGrow, Request: "p-aaaaaaaa-1", Group: groupA, Pods: pods}
	}
	end := &Change{Action: agentv1alpha1.BurstEnd, Request: "p-aaaaaaaa-1"}
	minute := noon.Add(Pause)
	cases := map[string]struct {
		rules    Rules
		groups   []Group
		requests []Request
		taken    []string
		want     Plan
	}{
		"nothing waits": {rules(10), nil, nil, nil, Plan{Why: "NothingWaits"}},
		"pods that are not due yet": {
			rules(10), []Group{waiting(3, 10*time.Second)}, nil, nil,
			Plan{Why: "Gathering", Until: noon.Add(20 * time.Second), Next: noon.Add(20 * time.Second)},
		},
		"due pods get a request": {
			rules(10), []Group{waiting(3, 30*time.Second)}, nil, nil,
			Plan{Why: "Settling", About: "p-aaaaaaaa-1", Change: create("p-aaaaaaaa-1", 3), Next: minute},
		},
		"a name that is taken is not used": {
			rules(10), []Group{waiting(3, time.Minute)}, nil, []string{"p-aaaaaaaa-1"},
			Plan{Why: "Settling", About: "p-aaaaaaaa-2", Change: create("p-aaaaaaaa-2", 3), Next: minute},
		},
		"the room is on a node that is not Ready": {
			rules(10), []Group{waiting(3, time.Minute)}, []Request{held(5, 1, func(r *Request) { r.Unusable = true })}, nil,
			Plan{Why: "NodeUnusable", About: "p-aaaaaaaa-1"},
		},
		"the limit cuts to whole pods": {
			rules(10, func(r *Rules) { r.Limit[corev1.ResourceMemory] = 2500 }), []Group{waiting(3, time.Minute)}, nil, nil,
			Plan{Why: "LimitReached", Change: create("p-aaaaaaaa-1", 2), Next: minute},
		},
		"the limit counts pods": {
			rules(10, func(r *Rules) { r.Limit[corev1.ResourcePods] = 1 }), []Group{waiting(3, time.Minute)}, nil, nil,
			Plan{Why: "LimitReached", Change: create("p-aaaaaaaa-1", 1), Next: minute},
		},
		"nothing is left of the limit": {
			rules(10), []Group{waiting(3, time.Minute)}, []Request{held(10, 10)}, nil, Plan{Why: "LimitReached"},
		},
		"the last change is too young": {
			rules(10, changedAt(noon.Add(-59*time.Second), *end)), []Group{waiting(3, time.Minute)}, nil, nil,
			Plan{Why: "Pausing", About: "p-aaaaaaaa-1", Until: noon.Add(time.Second), Next: noon.Add(time.Second)},
		},
		"a request with room serves pods": {
			rules(10), []Group{waiting(3, time.Minute)}, []Request{held(5, 2)}, nil, Plan{Why: "Requested"},
		},
		"a request that is not answered serves pods": {
			rules(10), []Group{waiting(3, time.Minute)}, []Request{held(3, 0, in(Settling))}, nil, Plan{Why: "Requested"},
		},
		"a request that is not answered is not enlarged, and no other one is created": {
			rules(10), []Group{waiting(4, time.Minute)}, []Request{held(3, 0, in(Settling))}, nil, Plan{Why: "Settling", About: "p-aaaaaaaa-1"},
		},
		"a request is enlarged": {
			rules(10), []Group{waiting(3, time.Minute)}, []Request{held(5, 4)}, nil,
			Plan{Why: "Settling", About: "p-aaaaaaaa-1", Change: grow(7), Next: minute},
		},
		"a request that cannot be enlarged gets a second one": {
			rules(10), []Group{waiting(3, time.Minute)}, []Request{held(5, 5, in(Full))}, nil,
			Plan{Why: "Settling", About: "p-aaaaaaaa-2", Change: create("p-aaaaaaaa-2", 3), Next: minute},
		},
		"what was refused is taken back, and counts until then": {
			rules(7), []Group{waiting(3, time.Minute)}, []Request{held(7, 5, in(Refused), func(r *Request) { r.Granted = amounts(5) })}, nil,
			Plan{Why: "LimitReached", Revert: []string{"p-aaaaaaaa-1"}},
		},
		"a request that is being released serves nobody, and counts": {
			rules(6), []Group{waiting(3, time.Minute)}, []Request{held(5, 0, in(Ending))}, nil,
			Plan{Why: "LimitReached", Change: create("p-aaaaaaaa-2", 1), Next: minute},
		},
		"a cordoned node serves nobody": {
			rules(10), []Group{waiting(2, time.Minute)}, []Request{held(5, 1, func(r *Request) { r.Cordoned = true })}, nil,
			Plan{Why: "Settling", About: "p-aaaaaaaa-2", Change: create("p-aaaaaaaa-2", 2), Next: minute},
		},
		"pods that fill the node with other sizes leave no room": {
			rules(10), []Group{waiting(1, time.Minute)}, []Request{held(2, 0, func(r *Request) {
				r.Used = quantity.Amounts{corev1.ResourceCPU: 1500, corev1.ResourcePods: 1}
			})}, nil,
			Plan{Why: "Settling", About: "p-aaaaaaaa-1", Change: grow(3), Next: minute},
		},
		"a failed request is repeated later": {
			rules(10), []Group{waiting(3, time.Hour)}, []Request{held(3, 0, overFor(time.Minute))}, nil,
			Plan{Why: "NoCapacity", About: "p-aaaaaaaa-1", Until: noon.Add(4 * time.Minute), Next: noon.Add(4 * time.Minute)},
		},
		"a failed request is forgotten, and repeated under another name": {
			rules(10), []Group{waiting(3, time.Hour)}, []Request{held(3, 0, overFor(5*time.Minute))}, nil,
			Plan{Why: "Settling", About: "p-aaaaaaaa-2", Forget: []string{"p-aaaaaaaa-1"}, Change: create("p-aaaaaaaa-2", 3), Next: minute},
		},
		"an idle request is left alone at first": {
			rules(10), nil, []Request{held(3, 0, idleFor(9*time.Minute))}, nil, Plan{Why: "NothingWaits", Next: minute},
		},
		"an idle request ends": {
			rules(10), nil, []Request{held(3, 0, idleFor(10*time.Minute))}, nil, Plan{Why: "NothingWaits", Change: end, Next: minute},
		},
		"a request with a pod does not end": {rules(10), nil, []Request{held(3, 1)}, nil, Plan{Why: "NothingWaits"}},
		"an idle request ends so that another group can use the limit": {
			rules(10), []Group{{ID: groupB, Shape: small, Pods: 1, Oldest: noon.Add(-time.Hour)}}, []Request{held(10, 0, idleFor(time.Hour))}, nil,
			Plan{Why: "LimitReached", Change: end, Next: minute},
		},
		"schedulers have five seconds to learn of a cordon": {
			rules(10, changedAt(noon.Add(-time.Second), *end)), nil, []Request{held(3, 0, idleFor(0), func(r *Request) { r.Cordoned = true })}, nil,
			Plan{Why: "NothingWaits", Next: noon.Add(4 * time.Second)},
		},
		"after that, a cordoned empty node is finished if it was cordoned for that": {
			rules(10, changedAt(noon.Add(-5*time.Second), *end)), nil, []Request{held(3, 0, idleFor(0), func(r *Request) { r.Cordoned = true })}, nil,
			Plan{Why: "NothingWaits", Finish: []string{"p-aaaaaaaa-1"}},
		},
		"a change by a replica whose clock is ahead": {
			rules(10, changedAt(noon.Add(5*time.Second), *end)), []Group{waiting(3, time.Minute)}, nil, nil,
			Plan{Why: "Pausing", About: "p-aaaaaaaa-1", Until: noon.Add(65 * time.Second), Next: noon.Add(65 * time.Second)},
		},
		"a change in the future, by a clock that was set back, delays nothing": {
			rules(10, changedAt(noon.Add(time.Hour), *create("p-bbbbbbbb-1", 1))), []Group{waiting(3, time.Hour)}, nil, nil,
			Plan{Why: "Settling", About: "p-aaaaaaaa-1", Change: create("p-aaaaaaaa-1", 3), Next: minute},
		},
		"a group whose request the API server refused waits, and others are served": {
			rules(10), []Group{refused(waiting(3, time.Hour)), {ID: groupB, Shape: small, Pods: 1, Oldest: noon.Add(-time.Minute)}}, nil, nil,
			Plan{Why: "NoCapacity", Until: minute, Change: &Change{Action: agentv1alpha1.BurstCreate, Request: "p-bbbbbbbb-1", Group: groupB, Pods: 1}, Next: minute},
		},
		"a node that somebody else cordoned is a change of its own": {
			rules(10), nil, []Request{held(3, 0, idleFor(10*time.Minute), func(r *Request) { r.Cordoned = true })}, nil,
			Plan{Why: "NothingWaits", Change: end, Next: minute},
		},
		"waiting pods come before idle requests": {
			rules(10), []Group{waiting(1, time.Hour)}, []Request{{Name: "p-bbbbbbbb-1", Group: groupB, State: Held, Shape: small, Asked: amounts(2), Granted: amounts(2), IdleSince: noon.Add(-time.Hour)}}, nil,
			Plan{Why: "Settling", About: "p-aaaaaaaa-1", Change: create("p-aaaaaaaa-1", 1), Next: minute},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			taken := map[string]bool{}
			for _, n := range tc.taken {
				taken[n] = true
			}
			if diff := cmp.Diff(tc.want, MakePlan(tc.rules, tc.groups, tc.requests, taken, noon)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestIdleClockStartsAnewWithEachPod(t *testing.T) {
	var c IdleClock
	at := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	for _, step := range []struct {
		second   int
		busy     bool
		arrivals uint64
		want     time.Time
	}{
		{0, false, 0, at(0)},
		{10, false, 0, at(0)},
		{20, true, 1, time.Time{}},
		{30, false, 1, at(30)},
		{40, false, 1, at(30)},
		{50, false, 2, at(50)}, // a pod came and went in between
		{60, false, 2, at(50)},
	} {
		if got := c.Observe("a", step.busy, step.arrivals, at(step.second)); !got.Equal(step.want) {
			t.Errorf("at %d s: idle since %v, want %v", step.second, got, step.want)
		}
	}
	c.Forget("a")
	if got := c.Observe("a", false, 2, at(70)); !got.Equal(at(70)) {
		t.Errorf("a forgotten request is idle since %v", got)
	}
}

func TestNodesOfLargeRequestsAdmitAllPods(t *testing.T) {
	for pods, want := range map[int64]int64{1: 110, 100: 110, 101: 111, 1000: 1010} {
		if got := PodSlots(pods); got != want || NamesPods(pods) != (want > 110) {
			t.Errorf("%d pods get %d slots, want %d", pods, got, want)
		}
	}
}
