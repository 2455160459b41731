package liqo

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func TestServiceThatTheProviderRefusesIsReported(t *testing.T) {
	const refused = `Error reflecting object to cluster "paris": Service db in namespace demo-rome was not reflected from cluster rome: use another name`
	endpoints := func() *discoveryv1.EndpointSlice {
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: "db", UID: "db-uid", Controller: new(true)}
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo", Name: "db-x1", Labels: map[string]string{discoveryv1.LabelServiceName: "db"}, OwnerReferences: []metav1.OwnerReference{owner},
		}}
	}
	event := func(name, kind, text string, age time.Duration) *corev1.Event {
		at := metav1.NewTime(time.Now().Add(-age))
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "demo", Name: name, CreationTimestamp: at},
			InvolvedObject: corev1.ObjectReference{Kind: "EndpointSlice", Namespace: "demo", Name: "db-x1"},
			Type:           kind, Reason: "FailedReflection", Message: text, LastTimestamp: at,
		}
	}
	for name, tt := range map[string]struct {
		objects func() []client.Object
		refused bool
	}{
		"the provider refuses its endpoints": {func() []client.Object {
			return []client.Object{endpoints(), event("a", "Warning", refused, time.Minute)}
		}, true},
		"it did so after it had accepted them": {func() []client.Object {
			return []client.Object{endpoints(), event("a", "Warning", refused, time.Minute), event("b", "Normal", `Successfully reflected object to cluster "paris"`, time.Hour)}
		}, true},
		"it has accepted them since": {func() []client.Object {
			return []client.Object{endpoints(), event("a", "Warning", refused, time.Minute), event("b", "Normal", `Successfully reflected object to cluster "paris"`, 0)}
		}, false},
		"it may only be a moment": {func() []client.Object {
			return []client.Object{endpoints(), event("a", "Warning", refused, time.Second)}
		}, false},
		"the Service was deleted": {func() []client.Object {
			return []client.Object{event("a", "Warning", refused, time.Minute)}
		}, false},
		"another provider refuses them": {func() []client.Object {
			return []client.Object{endpoints(), event("a", "Warning", strings.Replace(refused, "paris", "oslo", 1), time.Minute)}
		}, false},
		"nothing has happened": {func() []client.Object { return []client.Object{endpoints()} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.reserve("rome", "paris", "res-a")
				w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
				for _, o := range tt.objects() {
					w.check(w.sites["rome"].client.Create(t.Context(), o))
				}
				p := w.sites["rome"].peering
				none := func(string, time.Time) (int, string) { return 0, "" }
				p.opts.Unaccepted, p.opts.Unplaced = none, none
				inst := w.consumes("rome", "res-a")
				inst.Spec.Namespaces = []string{"other", "demo"}
				state, err := p.Consume(t.Context(), inst)
				w.check(err)
				if got := state.Health.Reason == agentv1alpha1.ReasonServiceRejected && strings.Contains(state.Health.Message, "use another name"); got != tt.refused {
					t.Errorf("got %+v, want refused %v", state.Health, tt.refused)
				}
				want := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "demo", Name: "db", UID: "db-uid"}
				if !tt.refused {
					want = nil
				}
				if diff := cmp.Diff(want, state.Concerned); diff != "" {
					t.Errorf("the object of the event (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPodThatWaitsForARefusedObjectIsReported(t *testing.T) {
	event := func(kind, name, uid, reason, text string) client.Object {
		return &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "demo", Name: kind + name, CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Minute))},
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "demo", Name: name, UID: types.UID(uid)},
			Type:           "Warning", Reason: reason, Message: text,
		}
	}
	refused := func() client.Object {
		return event("ConfigMap", "big", "big-uid", "FailedReflection", `Error reflecting object to cluster "paris": configmaps big has 70000 bytes`)
	}
	waits := func(object string) client.Object {
		return event("Pod", "p", "p-uid", "FailedMount", `MountVolume.SetUp failed for volume "v" : `+object+" not found")
	}
	pod := func(phase corev1.PodPhase) client.Object {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "p", UID: "p-uid"},
			Spec:       corev1.PodSpec{NodeName: "res-a-1"}, Status: corev1.PodStatus{Phase: phase, HostIP: "1.2.3.4"},
		}
	}
	for name, tt := range map[string]struct {
		objects  func() []client.Object
		reported bool
	}{
		"it is too large":              {func() []client.Object { return []client.Object{refused(), waits(`configmap "big"`), pod("Pending")} }, true},
		"the pod runs by now":          {func() []client.Object { return []client.Object{refused(), waits(`configmap "big"`), pod("Running")} }, false},
		"the pod waits for another":    {func() []client.Object { return []client.Object{refused(), waits(`configmap "none"`), pod("Pending")} }, false},
		"the pod waits for a Secret":   {func() []client.Object { return []client.Object{refused(), waits(`secret "big"`), pod("Pending")} }, false},
		"the provider refuses nothing": {func() []client.Object { return []client.Object{waits(`configmap "big"`), pod("Pending")} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.reserve("rome", "paris", "res-a")
				w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
				for _, o := range tt.objects() {
					w.check(w.sites["rome"].client.Create(t.Context(), o))
				}
				p := w.sites["rome"].peering
				none := func(string, time.Time) (int, string) { return 0, "" }
				p.opts.Unaccepted, p.opts.Unplaced = none, none
				inst := w.consumes("rome", "res-a")
				inst.Spec.Namespaces = []string{"demo"}
				state, err := p.Consume(t.Context(), inst)
				w.check(err)
				const why = `such as "demo/p": ConfigMap "big": FailedReflection: Error reflecting object to cluster "paris": configmaps big has 70000 bytes;`
				if got := state.Health.Reason == agentv1alpha1.ReasonPodsRejected && strings.Contains(state.Health.Message, why); got != tt.reported {
					t.Errorf("got %+v, want reported %v", state.Health, tt.reported)
				}
				if named := state.Concerned != nil && state.Concerned.UID == "p-uid"; named != tt.reported {
					t.Errorf("the object of the event is %v", state.Concerned)
				}
			})
		})
	}
}
