package local

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// attackWithSlice has somebody who holds the credentials of one of rome's virtual kubelets
// try to run more than was granted.
func attackWithSlice(t *testing.T, env *Environment, provider, slice string) {
	t.Helper()
	ctx, admin := t.Context(), env.Member(provider)
	thief, err := env.SliceIdentity(ctx, "rome", provider, slice)
	check(t, err)
	// What an honest virtual kubelet writes is taken, once the namespace is offloaded.
	check(t, e2e.Await(ctx, time.Minute, func(ctx context.Context) (string, error) {
		return "", thief.Create(ctx, shadowPod(slice, "honest"), client.DryRunAll)
	}))

	const cpu, memory = "100m", "16Mi"
	set := func(value any, path ...string) func(pod map[string]any) {
		return func(pod map[string]any) { check(t, unstructured.SetNestedField(pod, value, path...)) }
	}
	resources := func(requests, limits map[string]any) func(pod map[string]any) {
		return func(pod map[string]any) {
			container := pod["containers"].([]any)[0].(map[string]any)
			container["resources"] = map[string]any{"requests": requests, "limits": limits}
		}
	}
	amounts := func(cpu string) map[string]any { return map[string]any{"cpu": cpu, "memory": memory} }
	beside := func(name, restart string) map[string]any {
		c := container(name, amounts("400m"))
		c["restartPolicy"] = restart
		return c
	}
	pods := map[string]func(pod map[string]any){
		"a pod above the quota":                                resources(amounts("600m"), amounts("600m")),
		"a pod with a resource that is not in it":              resources(map[string]any{"cpu": cpu, "memory": memory, "nvidia.com/gpu": "1"}, map[string]any{"cpu": cpu, "memory": memory, "nvidia.com/gpu": "1"}),
		"a pod without requests":                               resources(nil, nil),
		"a pod with limits above its requests":                 resources(amounts(cpu), amounts("10")),
		"a pod with limits that become requests":               resources(amounts(cpu), map[string]any{"cpu": cpu, "memory": memory, "nvidia.com/gpu": "1"}),
		"a pod with resources as a whole":                      set(map[string]any{"requests": amounts("10")}, "resources"),
		"a pod with containers that the quota does not add up": set([]any{beside("a", "Always"), beside("b", "Always")}, "initContainers"),
		"a pod on a node of its choice":                        set("any", "nodeName"),
		"a pod that others make room for":                      set("system-cluster-critical", "priorityClassName"),
		"a pod in the host's network":                          set(true, "hostNetwork"),
	}
	attacks := map[string]func(context.Context) error{
		"a pod in another slice's name": func(ctx context.Context) error { return thief.Create(ctx, shadowPod("res-other-1", "stolen")) },
		"a pod that outlives its ShadowPod": func(ctx context.Context) error {
			pod := shadowPod(slice, "stolen")
			pod.SetFinalizers([]string{"orphan"})
			return thief.Create(ctx, pod)
		},
		"a pod without a ShadowPod": func(ctx context.Context) error {
			return thief.Create(ctx, &corev1.Pod{ObjectMeta: note(offloaded, "stolen").ObjectMeta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}})
		},
		"its own Quota": func(ctx context.Context) error {
			return thief.Patch(ctx, e2e.Object(e2e.QuotaKind, e2e.TenantNamespace("rome"), slice), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resources":{"cpu":"1000"}}}`)))
		},
		"its own slice": func(ctx context.Context) error {
			return thief.Patch(ctx, e2e.Object(e2e.SliceKind, e2e.TenantNamespace("rome"), slice), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"resources":{"cpu":"1000"}}}`)))
		},
		"what others keep here":               func(ctx context.Context) error { return thief.Create(ctx, note("default", "stolen")) },
		"the ConfigMaps of the whole cluster": func(ctx context.Context) error { return thief.List(ctx, &corev1.ConfigMapList{}) },
	}
	for name, change := range pods {
		attacks[name] = func(ctx context.Context) error {
			pod := shadowPod(slice, "stolen")
			change(pod.Object["spec"].(map[string]any)["pod"].(map[string]any))
			return thief.Create(ctx, pod)
		}
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) { refused(t, attack(ctx)) })
	}
	t.Run("a pod that is left behind when its ShadowPod is deleted", func(t *testing.T) {
		pod := shadowPod(slice, "orphan")
		check(t, thief.Create(ctx, pod))
		refused(t, thief.Delete(ctx, pod, client.PropagationPolicy("Orphan")))
		check(t, thief.Delete(ctx, pod, client.PropagationPolicy("Background")))
	})
	stolen := e2e.Object(e2e.ShadowPodKind, offloaded, "stolen")
	if err := admin.Get(ctx, client.ObjectKeyFromObject(stolen), stolen); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("looking for what was stolen: %v", err)
	}
}

// shadowPod is what the virtual kubelet of a slice writes for a small pod.
func shadowPod(slice, name string) *unstructured.Unstructured {
	pod := e2e.Object(e2e.ShadowPodKind, offloaded, name)
	pod.SetLabels(map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/nodename": slice})
	pod.Object["spec"] = map[string]any{"pod": map[string]any{
		"containers": []any{container("main", map[string]any{"cpu": "100m", "memory": "16Mi"})},
	}}
	return pod
}

func container(name string, amounts map[string]any) map[string]any {
	return map[string]any{"name": name, "image": "registry.k8s.io/pause:3.10", "resources": map[string]any{"requests": amounts, "limits": amounts}}
}
