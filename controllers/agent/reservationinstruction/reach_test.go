package reservationinstruction

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/event"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// sight is a Reach that has probed one endpoint.
type sight struct {
	endpoint, why string
	forgotten     bool
}

func (s *sight) Check(_, endpoint string) (string, bool)         { return s.why, endpoint == s.endpoint }
func (s *sight) Forget(string)                                   { s.forgotten = true }
func (s *sight) Checked() <-chan event.TypedGenericEvent[string] { return nil }

func TestUnreachableProviderIsGivenUp(t *testing.T) {
	const endpoint, refused = "https://paris:6443", "connection refused"
	misled := placement.Aspect{Reason: agentv1alpha1.ReasonHandshakeRefused, Message: "credentials name another API server"}
	peering := plan.ConsumerState{Phase: agentv1alpha1.InstructionPeering}
	tests := map[string]struct {
		sight  sight
		change func(*agentv1alpha1.ReservationInstruction)
		state  plan.ConsumerState
		want   []v1.StatusReport
	}{
		"nothing listens there": {
			sight: sight{endpoint: endpoint, why: refused}, state: peering,
			want: []v1.StatusReport{{Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateRefused, Reason: agentv1alpha1.ReasonUnreachable, Message: refused}},
		},
		"it answers":           {sight: sight{endpoint: endpoint}, state: peering},
		"nobody has looked":    {sight: sight{}, state: peering},
		"it names no endpoint": {sight: sight{why: refused}, state: peering, change: func(i *agentv1alpha1.ReservationInstruction) { i.Spec.TargetClusterEndpoint = "" }},
		"its node was Ready once": {
			sight: sight{endpoint: endpoint, why: refused}, state: plan.ConsumerState{Phase: agentv1alpha1.InstructionAwaitingNode, NodeReady: placement.Aspect{Reason: agentv1alpha1.ReasonNodeNotReady}},
			change: func(i *agentv1alpha1.ReservationInstruction) { i.Status.Delivered = true },
			want:   []v1.StatusReport{{Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateNotReady, Reason: agentv1alpha1.ReasonNodeNotReady}},
		},
		"it answers, and sends what no honest provider sends": {
			sight: sight{endpoint: endpoint}, state: plan.ConsumerState{Phase: agentv1alpha1.InstructionPeering, NodeReady: misled},
			want: []v1.StatusReport{{Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateRefused, Reason: agentv1alpha1.ReasonHandshakeRefused, Message: misled.Message}},
		},
		"it sends that before it was probed": {
			sight: sight{}, state: plan.ConsumerState{Phase: agentv1alpha1.InstructionPeering, NodeReady: misled},
		},
		"it sends that, and cannot be reached": {
			sight: sight{endpoint: endpoint, why: refused}, state: plan.ConsumerState{Phase: agentv1alpha1.InstructionPeering, NodeReady: misled},
			want: []v1.StatusReport{{Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateRefused, Reason: agentv1alpha1.ReasonUnreachable, Message: refused}},
		},
		"it sends that after its node was Ready": {
			sight: sight{endpoint: endpoint}, state: plan.ConsumerState{Phase: agentv1alpha1.InstructionAwaitingNode, NodeReady: misled},
			change: func(i *agentv1alpha1.ReservationInstruction) { i.Status.Delivered = true },
			want:   []v1.StatusReport{{Placement: 1, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateNotReady, Reason: agentv1alpha1.ReasonHandshakeRefused, Message: misled.Message}},
		},
		"it is taken down": {sight: sight{endpoint: endpoint, why: refused}, state: plan.ConsumerState{Phase: agentv1alpha1.InstructionReleasing}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inst, b := newInstruction(), &broker{}
				inst.Spec.TargetClusterEndpoint = endpoint
				if tt.change != nil {
					tt.change(inst)
				}
				r := newReconciler(t, b, inst)
				r.opts.Peering, r.opts.Reach = &liqo.Peering{}, &tt.sight
				var told []v1.StatusReport
				for range 2 {
					r.reportState(inst, tt.state)
					synctest.Wait()
					select {
					case got := <-b.told:
						awaitHeard(t, r)
						told = append(told, got)
					default: // nothing new to report
					}
				}
				if diff := cmp.Diff(tt.want, told); diff != "" {
					t.Errorf("reports (-want +got):\n%s", diff)
				}
				if inst.Status.Delivered != tt.sight.forgotten && inst.Spec.TargetClusterEndpoint != "" {
					t.Errorf("delivered: %t, forgotten: %t", inst.Status.Delivered, tt.sight.forgotten)
				}
			})
		})
	}
}
