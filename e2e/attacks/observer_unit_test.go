package attacks

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestObserverAppliesE1 checks that the observer detects every excess and reports nothing else. The
// other tests rely on it.
func TestObserverAppliesE1(t *testing.T) {
	tests := map[string]struct {
		// pods are the CPU requests of rome's pods, which run together for the given time.
		pods    []string
		lasting time.Duration
		want    string
	}{
		"usage equal to the grant":       {[]string{"200m", "300m"}, time.Hour, ""},
		"one pod above it, for a moment": {[]string{"400m", "200m"}, overFor, ""},
		"one pod above it, for longer":   {[]string{"400m", "200m"}, overFor + time.Second, "has run 600m CPU"},
		"two pods above it, at once":     {[]string{"400m", "400m", "400m"}, 0, "more than one pod above its grant"},
		"one enormous pod, at once":      {[]string{"5"}, 0, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := time.Now()
			o := newObserver(map[string]corev1.ResourceList{"rome": grant()}, func() time.Time { return clock })
			o.seeNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "e2e-rome", Labels: map[string]string{"liqo.io/remote-cluster-id": "rome"}}})
			for i, cpu := range test.pods {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "e2e-rome", Name: cpu, UID: types.UID(rune('a' + i))}}
				pod.Spec.NodeName = "paris-1"
				pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
				o.seePod(pod)
			}
			clock = clock.Add(test.lasting)
			o.judge()
			if got := strings.Join(o.violations, "; "); test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestDemandOfAPodIsWhatTheSchedulerKeeps(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(cpu string, restart *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{RestartPolicy: restart, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	tests := map[string]struct {
		spec corev1.PodSpec
		want string
	}{
		"containers add up": {corev1.PodSpec{Containers: []corev1.Container{container("100m", nil), container("200m", nil)}}, "300m"},
		"the largest init container counts": {corev1.PodSpec{
			InitContainers: []corev1.Container{container("1m", nil), container("999m", nil)}, Containers: []corev1.Container{container("1m", nil)},
		}, "999m"},
		"a sidecar runs beside the containers": {corev1.PodSpec{
			InitContainers: []corev1.Container{container("100m", &always)}, Containers: []corev1.Container{container("200m", nil)},
		}, "300m"},
		"an init container runs beside the sidecars before it": {corev1.PodSpec{
			InitContainers: []corev1.Container{container("100m", &always), container("400m", nil)}, Containers: []corev1.Container{container("200m", nil)},
		}, "500m"},
		"overhead comes on top": {corev1.PodSpec{
			Containers: []corev1.Container{container("200m", nil)}, Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m")},
		}, "250m"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := demandOf(&test.spec)[corev1.ResourceCPU]
			if got.Cmp(resource.MustParse(test.want)) != 0 {
				t.Errorf("got %s, want %s", got.String(), test.want)
			}
		})
	}
}
