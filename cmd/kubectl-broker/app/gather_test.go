package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// A refusal by the provider's API server is an event about the ShadowPod, which Liqo copies to the consumer's cluster.
func TestEventsOfPodIncludeThoseOfItsShadowPod(t *testing.T) {
	event := func(name, kind, about string) client.Object {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "team", Name: name},
			InvolvedObject: corev1.ObjectReference{Namespace: "team", Kind: kind, Name: about},
		}
	}
	c := &connection{WithWatch: fake.NewClientBuilder().
		WithObjects(event("a", "Pod", "web"), event("b", "ShadowPod", "web"), event("c", "Deployment", "web"), event("d", "ShadowPod", "other")).
		WithIndex(&corev1.Event{}, "involvedObject.name", func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Name} }).
		Build()}
	s := &view.Snapshot{}
	c.readEvents(t.Context(), s, []view.Ref{{Kind: "Pod", Namespace: "team", Name: "web"}})
	var names []string
	for _, e := range s.Events {
		names = append(names, e.Name)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" || len(s.Gaps) > 0 {
		t.Errorf("events (-want +got):\n%s; gaps: %v", diff, s.Gaps)
	}
}
