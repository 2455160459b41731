package reservationinstruction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// observedDrain contains the arguments of a call of ObserveDrain.
type observedDrain struct {
	Result DrainResult
	Took   time.Duration
}

func TestDrainIsObservedOnceWhenItEnds(t *testing.T) {
	running := placement.Waiting(agentv1alpha1.ReasonDraining, "3 pods left")
	drained := placement.Aspect{True: true, Reason: agentv1alpha1.ReasonDrained, Message: "no pod is left"}
	partly := placement.Aspect{True: true, Reason: agentv1alpha1.ReasonDrainedPartly, Message: "1 pod is still there"}
	began := time.Unix(1000, 0)
	tests := map[string]struct {
		drain *agentv1alpha1.Drain
		steps []placement.Aspect
		want  []observedDrain
	}{
		"pods left before the deadline": {
			drain: &agentv1alpha1.Drain{StartedAt: metav1.NewTime(began), Deadline: metav1.NewTime(began.Add(5 * time.Minute))},
			steps: []placement.Aspect{running, drained, {}, drained},
			want:  []observedDrain{{DrainEvicted, time.Minute}},
		},
		"pods were deleted at the deadline": {
			drain: &agentv1alpha1.Drain{StartedAt: metav1.NewTime(began), Deadline: metav1.NewTime(began.Add(time.Minute))},
			steps: []placement.Aspect{running, drained},
			want:  []observedDrain{{DrainDeleted, time.Minute}},
		},
		"pods were left on the node": {
			drain: &agentv1alpha1.Drain{StartedAt: metav1.NewTime(began), Deadline: metav1.NewTime(began.Add(30 * time.Second))},
			steps: []placement.Aspect{running, partly},
			want:  []observedDrain{{DrainLeft, time.Minute}},
		},
		"the drain has not ended": {
			drain: &agentv1alpha1.Drain{StartedAt: metav1.NewTime(began), Deadline: metav1.NewTime(began.Add(5 * time.Minute))},
			steps: []placement.Aspect{running, running},
		},
		"the provider was given up before the drain began": {steps: []placement.Aspect{drained}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inst := newInstruction()
			inst.Spec.Release, inst.Status.Drain = true, test.drain
			r := newReconciler(t, &broker{}, inst)
			runtest.Check(t, r.client.Status().Update(t.Context(), inst))
			var got []observedDrain
			r.opts.Peering = &liqo.Peering{}
			r.opts.ObserveDrain = func(result DrainResult, took time.Duration) { got = append(got, observedDrain{result, took}) }
			for i, step := range test.steps {
				if i == 2 { // the cache shows an older status, from before the end
					inst.Status.Conditions = nil
				}
				state := plan.ConsumerState{Phase: agentv1alpha1.InstructionReleasing, Drained: step}
				runtest.Check(t, r.writeStatus(t.Context(), inst, state, began.Add(time.Minute)))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("observed drains (-want +got):\n%s", diff)
			}
		})
	}
}
