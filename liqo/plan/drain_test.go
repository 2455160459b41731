package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// The drain in these tests began at noon and lasts five minutes.
var (
	drainBegan    = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	drainDeadline = drainBegan.Add(5 * time.Minute)
)

// draining returns the view of an ended placement whose node is cordoned and has pods.
func draining(change func(*ConsumerView), pods ...PodView) ConsumerView {
	return consumer(func(v *ConsumerView) {
		v.Release, v.Node.Cordoned = true, true
		v.Drain = DrainView{Now: drainBegan.Add(time.Minute), Begun: drainBegan, Deadline: drainDeadline, Pods: pods}
		change(v)
	})
}

func pod(name string, change ...func(*PodView)) PodView {
	p := PodView{Namespace: "demo", Name: name}
	for _, f := range change {
		f(&p)
	}
	return p
}

func ending(at time.Time) func(*PodView) { return func(p *PodView) { p.GraceEnds = at } }

func refused(at time.Time) func(*PodView) {
	return func(p *PodView) {
		p.Tried, p.Refusal = at, "the disruption budget web needs 2 healthy pods and has 2 currently"
	}
}

func at(now time.Time) func(*ConsumerView) { return func(v *ConsumerView) { v.Drain.Now = now } }

func TestNodeIsDrained(t *testing.T) {
	asIs := func(*ConsumerView) {}
	unreachable := func(v *ConsumerView) { v.Node.Ready = false }
	minute := drainBegan.Add(time.Minute)
	tests := map[string]struct {
		view   ConsumerView
		want   []Action
		reason string
	}{
		"until when is written down first of all": {
			view:   draining(func(v *ConsumerView) { v.Drain, v.Node.Cordoned = DrainView{Now: minute}, false }),
			want:   []Action{{Do: BeginDrain}, {Do: CordonNode}},
			reason: agentv1alpha1.ReasonDraining,
		},
		"nobody is evicted before the node is cordoned": {
			view: draining(func(v *ConsumerView) { v.Node.Cordoned = false }, pod("a")),
			want: []Action{{Do: CordonNode}}, reason: agentv1alpha1.ReasonDraining,
		},
		"pods are evicted": {
			view: draining(asIs, pod("b"), pod("a")),
			want: []Action{{Do: EvictPods, Pods: []PodView{pod("a"), pod("b")}}}, reason: agentv1alpha1.ReasonDraining,
		},
		"a pod that leaves is waited for": {
			view: draining(asIs, pod("a", ending(minute.Add(30*time.Second)))), reason: agentv1alpha1.ReasonDraining,
		},
		"a pod that leaves is waited for beyond its grace, until the deadline": {
			view: draining(asIs, pod("a", ending(drainBegan))), reason: agentv1alpha1.ReasonDraining,
		},
		"a pod that was refused a moment ago is left alone": {
			view: draining(asIs, pod("a", refused(minute.Add(-time.Second)))), reason: agentv1alpha1.ReasonDrainBlocked,
		},
		"who was refused is asked again, after those that were not asked": {
			view: draining(asIs, pod("a", refused(minute.Add(-time.Minute))), pod("b", refused(minute.Add(-2*time.Minute))), pod("c")),
			want: []Action{{Do: EvictPods, Pods: []PodView{
				pod("c"), pod("b", refused(minute.Add(-2*time.Minute))), pod("a", refused(minute.Add(-time.Minute))),
			}}},
			reason: agentv1alpha1.ReasonDrainBlocked,
		},
		"from the deadline on pods are deleted, even one refused a moment ago": {
			view:   draining(at(drainDeadline), pod("a", refused(drainDeadline.Add(-time.Second)))),
			want:   []Action{{Do: RemovePods, Pods: []PodView{pod("a", refused(drainDeadline.Add(-time.Second)))}}},
			reason: agentv1alpha1.ReasonDrainOverdue,
		},
		"a drain that nobody attended deletes what it did not evict": {
			view: draining(at(drainDeadline.Add(time.Hour)), pod("a")),
			want: []Action{{Do: RemovePods, Pods: []PodView{pod("a")}}}, reason: agentv1alpha1.ReasonDrainOverdue,
		},
		"a pod that was deleted has its grace": {
			view: draining(at(drainDeadline.Add(time.Minute)), pod("a", ending(drainDeadline.Add(2*time.Minute)))), reason: agentv1alpha1.ReasonDrainOverdue,
		},
		"and a little more, to hear of it": {
			view: draining(at(drainDeadline.Add(time.Minute)), pod("a", ending(drainDeadline.Add(time.Minute)))), reason: agentv1alpha1.ReasonDrainOverdue,
		},
		"a pod of which nothing is heard after that holds the node no longer": {
			view: draining(at(drainDeadline.Add(time.Minute)), pod("a", ending(drainDeadline.Add(30*time.Second)))),
			want: []Action{{Do: DeleteSlice}}, reason: agentv1alpha1.ReasonDrainedPartly,
		},
		"nor does one that nobody may delete": {
			view: draining(at(drainDeadline.Add(time.Second)), pod("a", refused(drainDeadline))),
			want: []Action{{Do: DeleteSlice}}, reason: agentv1alpha1.ReasonDrainedPartly,
		},
		"on a node that cannot be reached pods are evicted too": {
			view: draining(unreachable, pod("a"), pod("b", ending(drainBegan))),
			want: []Action{{Do: EvictPods, Pods: []PodView{pod("a")}}}, reason: agentv1alpha1.ReasonDraining,
		},
		"but nobody waits to hear that they are gone": {
			view: draining(unreachable, pod("a", ending(drainDeadline))),
			want: []Action{{Do: DeleteSlice}}, reason: agentv1alpha1.ReasonDrainedPartly,
		},
		"pods stay until the reservation's next node is Ready": {
			view: draining(func(v *ConsumerView) { v.Drain.SuccessorComes = true }, pod("a")), reason: agentv1alpha1.ReasonDraining,
		},
		"but no longer than half of the time": {
			view: draining(func(v *ConsumerView) { v.Drain.SuccessorComes, v.Drain.Now = true, drainBegan.Add(150*time.Second) }, pod("a")),
			want: []Action{{Do: EvictPods, Pods: []PodView{pod("a")}}}, reason: agentv1alpha1.ReasonDraining,
		},
		"for a provider that was given up Liqo ends what is left": {
			view: draining(func(v *ConsumerView) { v.Reach.GivenUp, v.Node.Ready = true, false }, pod("a")),
			want: []Action{{Do: DeleteSlice}}, reason: agentv1alpha1.ReasonDrainedPartly,
		},
		"nobody is left": {
			view: draining(asIs), want: []Action{{Do: DeleteSlice}}, reason: agentv1alpha1.ReasonDrained,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actions, state := ForConsumer(test.view)
			if diff := cmp.Diff(test.want, actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			done := len(actions) == 1 && actions[0].Do == DeleteSlice
			if state.Drained.Reason != test.reason || state.Drained.True != done || done == (state.Again > 0) {
				t.Errorf("reason %q, want %q; drained %v, again %v: %s", state.Drained.Reason, test.reason, state.Drained.True, state.Again, state.Drained.Message)
			}
		})
	}
}

// Another placement of the same pair waits for the worker, so a node with many pods must not
// occupy it.
func TestPodsAreAskedAFewAtATime(t *testing.T) {
	var pods []PodView
	for i := range 3 * maxPodsPerStep {
		pods = append(pods, pod(fmt.Sprintf("pod-%02d", i)))
	}
	asked := map[string]bool{}
	for look := 0; len(asked) < len(pods) && look < len(pods); look++ {
		now := drainBegan.Add(time.Duration(look) * drainInterval)
		actions, _ := ForConsumer(draining(at(now), pods...))
		for _, a := range actions {
			if len(a.Pods) > maxPodsPerStep {
				t.Fatalf("%d pods are asked at once", len(a.Pods))
			}
			for _, p := range a.Pods {
				asked[p.Name] = true
				var number int
				if _, err := fmt.Sscanf(p.Name, "pod-%d", &number); err != nil {
					t.Fatal(err)
				}
				refused(now)(&pods[number])
			}
		}
	}
	if len(asked) != len(pods) {
		t.Errorf("%d of %d pods were asked, though all were refused alike", len(asked), len(pods))
	}
}

func TestDrainNamesBlockingPods(t *testing.T) {
	minute := drainBegan.Add(time.Minute)
	other := func(p *PodView) { p.Tried, p.Refusal = minute, "forbidden" }
	tests := map[string]struct {
		view ConsumerView
		want string
	}{
		"one pod": {
			view: draining(at(minute), pod("a")),
			want: `1 pod left on node "res-a-1", 0 of them terminating; what is left at 2026-06-01T12:05:00Z is deleted`,
		},
		"a disruption budget and something else": {
			view: draining(at(minute), pod("b", refused(minute)), pod("a", refused(minute)), pod("d", other), pod("c", ending(minute))),
			want: `4 pods left on node "res-a-1", 1 of them terminating; what is left at 2026-06-01T12:05:00Z is deleted` +
				`; demo/a and 1 more cannot be evicted: the disruption budget web needs 2 healthy pods and has 2 currently; demo/d cannot be evicted: forbidden`,
		},
		"the deadline is over": {
			view: draining(at(drainDeadline), pod("a"), pod("b")),
			want: `2 pods left on node "res-a-1", 0 of them terminating; the time to evict them was over at 2026-06-01T12:05:00Z, and they are deleted with their grace period`,
		},
		"a provider that cannot be reached": {
			view: draining(func(v *ConsumerView) { v.Node.Ready = false }, pod("a", ending(minute)), pod("b", ending(minute))),
			want: `node "res-a-1" is removed: 2 pods on it were deleted, and "paris" cannot be reached to confirm it`,
		},
		"nobody is left": {view: draining(at(minute)), want: `no pod is left on node "res-a-1"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, state := ForConsumer(test.view)
			if state.Drained.Message != test.want {
				t.Errorf("got  %s\nwant %s", state.Drained.Message, test.want)
			}
		})
	}
}
