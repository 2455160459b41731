package plan

import (
	"strings"
	"testing"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func TestHealthOfPlacements(t *testing.T) {
	notReady := NodeView{Exists: true, Message: "kubelet stopped posting"}
	tests := map[string]struct {
		change  func(*ConsumerView)
		reason  string
		message string
	}{
		"nothing is": {func(*ConsumerView) {}, agentv1alpha1.ReasonHealthy, `"paris" serves node "res-a-1"`},
		"it was never Ready, and is not": {
			func(v *ConsumerView) { v.Health = HealthView{Unreachable: "refused"}; v.Node = notReady }, "", "",
		},
		"it is Ready for the first time": {func(v *ConsumerView) { v.Health.Delivered = false }, agentv1alpha1.ReasonHealthy, ""},
		"the API server of the provider does not answer": {
			func(v *ConsumerView) { v.Health.Unreachable = "connection refused" }, agentv1alpha1.ReasonProviderUnreachable, "connection refused",
		},
		"that explains a node that is not Ready": {
			func(v *ConsumerView) { v.Health.Unreachable = "connection refused"; v.Node = notReady }, agentv1alpha1.ReasonProviderUnreachable, "",
		},
		"the provider takes the slice back": {
			func(v *ConsumerView) { v.Slice.Denied, v.Slice.Message = true, "no reservation"; v.Node = notReady }, agentv1alpha1.ReasonSliceDenied, "no reservation",
		},
		"the node is not Ready": {func(v *ConsumerView) { v.Node = notReady }, agentv1alpha1.ReasonNodeNotReady, "kubelet stopped posting"},
		"the node is gone":      {func(v *ConsumerView) { v.Node = NodeView{} }, agentv1alpha1.ReasonNodeNotReady, "no reason is given"},
		"the provider refuses some pods": {
			func(v *ConsumerView) { v.Health.Unaccepted, v.Health.WaitingPod = 3, "demo/a" }, agentv1alpha1.ReasonPodsRejected, `3 pods of node "res-a-1" not accepted by "paris", such as "demo/a"`,
		},
		"the message quotes the event of the pod": {
			func(v *ConsumerView) {
				v.Health.Unaccepted, v.Health.WaitingPod, v.Health.Event = 1, "demo/a", "FailedReflection: requests not set"
			}, agentv1alpha1.ReasonPodsRejected, `such as "demo/a": FailedReflection: requests not set; correct`,
		},
		"no node of the provider can take a pod": {
			func(v *ConsumerView) {
				v.Health.Unplaced, v.Health.WaitingPod, v.Health.Event = 1, "demo/a", "FailedScheduling: 2 Insufficient cpu"
			}, agentv1alpha1.ReasonPodsRejected, `1 pod of node "res-a-1" without a node at "paris", such as "demo/a": FailedScheduling: 2 Insufficient cpu; make the pod smaller or loosen its constraints, or request podShapes`,
		},
		"the provider has promised a node for the pod": {
			func(v *ConsumerView) {
				v.Health.Unplaced, v.Health.WaitingPod, v.Health.Event, v.Health.Unserved = 2, "demo/a", "FailedScheduling: 0/3 nodes", true
			}, agentv1alpha1.ReasonPodsRejected, `such as "demo/a": FailedScheduling: 0/3 nodes; no pod runs there, although the provider has accepted podShapes`,
		},
		"the provider refuses the endpoints of a Service": {
			func(v *ConsumerView) {
				v.Health.Service, v.Health.Event = "demo/db", "FailedReflection: Service db was not reflected: use another name"
			}, agentv1alpha1.ReasonServiceRejected, `"paris" does not accept the endpoints of Service "demo/db", so pods there may reach another Service of that name, or none: FailedReflection: Service db was not reflected: use another name`,
		},
		"it is taken down": {func(v *ConsumerView) { v.Release = true }, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, s := ForConsumer(consumer(func(v *ConsumerView) {
				v.Health.Delivered = true
				tt.change(v)
			}))
			if got := s.Health; got.Reason != tt.reason || !strings.Contains(got.Message, tt.message) || got.True != (tt.reason == agentv1alpha1.ReasonHealthy) {
				t.Errorf("got %+v, want %s and %q", got, tt.reason, tt.message)
			}
		})
	}
}
