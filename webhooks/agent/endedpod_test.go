package agent

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// TestEndedPodsMakeRoomForNewOnes has a placement with 500m of CPU.
func TestEndedPodsMakeRoomForNewOnes(t *testing.T) {
	const user = placement + "-0123456789ab"
	ended := func(phase corev1.PodPhase, ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase = phase
			p.OwnerReferences[0].UID = types.UID("shadow-" + p.Name)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(time.Unix(1000, 0).Add(-ago))},
			}}}
		}
	}
	someoneElses := func(p *corev1.Pod) { p.Labels[creatorLabel] = "res-9999999999-1-0123456789ab" }
	const long = time.Minute
	for name, tt := range map[string]struct {
		pods      []*corev1.Pod
		cpu, user string
		dry       bool
		want      []string
	}{
		"an ended one of a Job whose pods use the whole grant": {pods: []*corev1.Pod{offloadedPodOf("a", "500m", ended(corev1.PodSucceeded, long))}, cpu: "500m", want: []string{"a"}},
		"a failed one": {pods: []*corev1.Pod{offloadedPodOf("a", "500m", ended(corev1.PodFailed, long))}, cpu: "500m", want: []string{"a"}},
		"only as many as it needs, the first that ended": {
			pods: []*corev1.Pod{
				offloadedPodOf("a", "200m", ended(corev1.PodSucceeded, long)), offloadedPodOf("b", "200m", ended(corev1.PodSucceeded, 2*long)),
				offloadedPodOf("c", "100m", ended(corev1.PodSucceeded, long)),
			}, cpu: "200m", want: []string{"b"},
		},
		"none while there is room":                 {pods: []*corev1.Pod{offloadedPodOf("a", "200m", ended(corev1.PodSucceeded, long))}, cpu: "200m"},
		"none whose phase may still be on its way": {pods: []*corev1.Pod{offloadedPodOf("a", "500m", ended(corev1.PodSucceeded, time.Second))}, cpu: "500m"},
		"none that runs":                           {pods: []*corev1.Pod{offloadedPodOf("a", "500m", ended(corev1.PodRunning, long))}, cpu: "500m"},
		"none if that would not help":              {pods: []*corev1.Pod{offloadedPodOf("a", "200m", ended(corev1.PodSucceeded, long))}, cpu: "600m"},
		"none of another placement":                {pods: []*corev1.Pod{offloadedPodOf("a", "500m", ended(corev1.PodSucceeded, long), someoneElses)}, cpu: "500m"},
		"none for another identity":                {pods: []*corev1.Pod{offloadedPodOf("a", "500m", ended(corev1.PodSucceeded, long))}, cpu: "500m", user: "res-9999999999-1-0123456789ab"},
		"none in a dry run":                        {pods: []*corev1.Pod{offloadedPodOf("a", "500m", ended(corev1.PodSucceeded, long))}, cpu: "500m", dry: true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newPodJudge(t, nil)
			var deleted []string
			j.DeleteShadowPod = func(_ context.Context, pod types.NamespacedName, uid types.UID) error {
				if uid != types.UID("shadow-"+pod.Name) || pod.Namespace != landing {
					t.Errorf("deleted %s with UID %q", pod, uid)
				}
				deleted = append(deleted, pod.Name)
				return nil
			}
			known := fake.NewClientBuilder().WithScheme(j.cache.(interface{ Scheme() *runtime.Scheme }).Scheme())
			for _, pod := range tt.pods {
				known.WithObjects(pod)
			}
			j.Pods = known.Build()
			shadow := map[string]any{
				"metadata": map[string]any{"namespace": landing, "name": "new", "labels": map[string]any{creatorLabel: user}},
				"spec":     map[string]any{"pod": offloadedPodOf("new", tt.cpu).Spec},
			}
			raw, err := json.Marshal(shadow)
			runtest.Check(t, err)
			req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: landing, DryRun: &tt.dry, Object: runtime.RawExtension{Raw: raw}, UserInfo: authenticationv1.UserInfo{Username: user},
			}}
			if tt.user != "" {
				req.UserInfo.Username = tt.user
			}
			if got := j.makeRoom(t.Context(), req); !got.Allowed {
				t.Errorf("refused: %v", got.Result)
			}
			if diff := cmp.Diff(tt.want, deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
		})
	}
}
