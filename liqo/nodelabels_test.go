package liqo

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func TestVirtualNodesNameTheirRequestAndItsNamespaces(t *testing.T) {
	ref := &agentv1alpha1.RequestReference{Namespace: "team", Name: "my-request"}
	for name, tt := range map[string]struct {
		spec agentv1alpha1.ReservationInstructionSpec
		want map[string]string
	}{
		"a request for its own namespace": {
			agentv1alpha1.ReservationInstructionSpec{RequestRef: ref, Namespaces: []string{"team"}},
			map[string]string{
				"type": "virtual-kubelet", "broker.fluidos.eu/request": "my-request", "broker.fluidos.eu/request-namespace": "team", "namespace.broker.fluidos.eu/team": "true",
			},
		},
		"a request for another namespace": {
			agentv1alpha1.ReservationInstructionSpec{RequestRef: ref, Namespaces: []string{"open"}},
			map[string]string{
				"type": "virtual-kubelet", "broker.fluidos.eu/request": "my-request", "broker.fluidos.eu/request-namespace": "team",
				"namespace.broker.fluidos.eu/team": "true", "namespace.broker.fluidos.eu/open": "true",
			},
		},
		"a reservation without a request": {want: map[string]string{"type": "virtual-kubelet", "broker.fluidos.eu/shared": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, agentLabels(&agentv1alpha1.ReservationInstruction{Spec: tt.spec})); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForeignLabelsOfVirtualNodesAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		rome := w.sites["rome"]
		node := &corev1.Node{}
		want := map[string]string{"type": "virtual-kubelet", "broker.fluidos.eu/shared": "true"}
		isLabelled := func() bool {
			w.check(rome.client.Get(t.Context(), types.NamespacedName{Name: "res-a-1"}, node))
			return cmp.Equal(want, labelsOfAgent(node.Labels))
		}
		w.until("the agent has labelled the node", nil, isLabelled)
		node.Labels["broker.fluidos.eu/request"], node.Labels["namespace.broker.fluidos.eu/kube-system"] = "of-others", "true"
		w.check(rome.client.Update(t.Context(), node))
		w.until("the labels are the agent's again", nil, isLabelled)
		const annotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
		isKept := func() bool { return isLabelled() && node.Annotations[annotation] == "true" }
		w.until("cluster-autoscaler keeps the node", nil, isKept)
		delete(node.Annotations, annotation)
		w.check(rome.client.Update(t.Context(), node))
		w.until("it keeps the node again", nil, isKept)
		w.release("rome", "paris", "res-a", nil)
		w.wantEmpty()
	})
}
