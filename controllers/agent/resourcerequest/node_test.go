package resourcerequest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestStatusShowsByWhichLabelsPodsSelectTheNode(t *testing.T) {
	b := newBench(t)
	b.after(0)
	if labels := b.request().Status.NodeLabels; labels != nil {
		t.Errorf("without a node: %v", labels)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "res-1-1", Labels: map[string]string{
		"topology.kubernetes.io/region": "eu-south", "broker.fluidos.eu/reservation": "res-1", "namespace.broker.fluidos.eu/team": "true", "kubernetes.io/os": "linux",
	}}}
	runtest.Check(t, b.client.Create(t.Context(), node))
	b.carriedOut(func(inst *agentv1alpha1.ReservationInstruction) { inst.Status.NodeName = node.Name })
	b.after(time.Second)
	want := map[string]string{
		"broker.fluidos.eu/request": "mine", "broker.fluidos.eu/request-namespace": "team",
		"broker.fluidos.eu/reservation": "res-1", "topology.kubernetes.io/region": "eu-south",
	}
	if diff := cmp.Diff(want, b.request().Status.NodeLabels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	runtest.Check(t, b.client.Delete(t.Context(), node))
	b.after(time.Second)
	if labels := b.request().Status.NodeLabels; labels != nil {
		t.Errorf("the node is gone: %v", labels)
	}
}
