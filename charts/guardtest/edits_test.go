package guardtest

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A virtual kubelet ignores changes of a running pod's spec, so the API server refuses them.
func TestRunningPodsOfReservationsCannotBeChanged(t *testing.T) {
	c := startCluster(t)
	for _, obj := range render(t, agentNamespace, "").Objects {
		if strings.HasPrefix(obj.GetKind(), "ValidatingAdmissionPolicy") && strings.HasSuffix(obj.GetName(), "-edits") {
			c.create(obj)
		}
	}
	c.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})
	change := func(pod, node, subresource string, change func(*corev1.Pod)) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod}}
		p.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "a", Image: "image", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}, Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
		}}}}
		if err := c.Create(t.Context(), p); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
		c.check(c.Get(t.Context(), client.ObjectKeyFromObject(p), p))
		change(p)
		if subresource == "" {
			return c.Update(t.Context(), p, client.DryRunAll)
		}
		return c.SubResource(subresource).Update(t.Context(), p, client.DryRunAll)
	}
	image := func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }
	label := func(p *corev1.Pod) { p.Labels = map[string]string{"liqo.io/shadowPod": "true"} }
	resize := func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("3")
		p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("3")
	}
	debug := func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "b", Image: "image", TerminationMessagePolicy: "File", ImagePullPolicy: "Always"}}}
	}
	var err error
	refused := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, hangLimit, true, func(context.Context) (bool, error) {
		err = change("offloaded", "res-aaaaaaaaaa-1", "resize", resize)
		return err != nil && strings.Contains(err.Error(), "pod offloaded runs at the provider of node res-aaaaaaaaaa-1, which a resize does not reach: change the amounts"), nil
	})
	if refused != nil {
		t.Errorf("a resize: %v", err)
	}
	if err := change("offloaded", "res-aaaaaaaaaa-1", "ephemeralcontainers", debug); err == nil || !strings.Contains(err.Error(), "use kubectl exec, or kubectl debug with --copy-to") {
		t.Errorf("an ephemeral container: %v", err)
	}
	if err := change("offloaded", "res-aaaaaaaaaa-1", "", image); err == nil || !strings.Contains(err.Error(), "change the workload") {
		t.Errorf("another image: %v", err)
	}
	if err := change("offloaded", "res-aaaaaaaaaa-1", "", label); err != nil {
		t.Errorf("a label: %v", err)
	}
	for name, node := range map[string]string{"local": "worker", "pending": "", "similar": "res-worker"} {
		if err := change(name, node, "", image); err != nil {
			t.Errorf("%s: another image: %v", name, err)
		}
		if err := change(name, node, "resize", resize); err != nil {
			t.Errorf("%s: a resize: %v", name, err)
		}
		if err := change(name, node, "ephemeralcontainers", debug); err != nil {
			t.Errorf("%s: an ephemeral container: %v", name, err)
		}
	}
}
