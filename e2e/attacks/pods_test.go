package attacks

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
)

// TestPodsThatAreCountedWronglyAreRefused uses a slice's credentials to write pods that Liqo's
// quota counts wrongly.
func TestPodsThatAreCountedWronglyAreRefused(t *testing.T) {
	s := open(t)
	amounts := func(cpu string) map[string]any { return map[string]any{"cpu": cpu, "memory": "16Mi"} }
	resources := func(requests, limits map[string]any) func(pod map[string]any) {
		return func(pod map[string]any) {
			mainOf(pod)["resources"] = map[string]any{"requests": requests, "limits": limits}
		}
	}
	with := func(name, amount string) map[string]any {
		list := amounts("100m")
		list[name] = amount
		return list
	}
	beside := func(name, cpu string) map[string]any {
		c := e2etest.Container(name, amounts(cpu))
		c["restartPolicy"] = "Always"
		return c
	}
	s.refusePods(t, s.attacker, map[string]func(pod map[string]any){
		"negative CPU":                              requests("-100", "16Mi"),
		"negative memory":                           requests("100m", "-1Gi"),
		"CPU of zero":                               requests("0", "16Mi"),
		"nothing at all, as a BestEffort pod":       requests("0", "0"),
		"no requests":                               resources(nil, nil),
		"no limits":                                 resources(amounts("100m"), nil),
		"limits above the requests":                 resources(amounts("100m"), map[string]any{"cpu": "100m", "memory": "10Gi"}),
		"limits that become requests":               resources(amounts("100m"), with("nvidia.com/gpu", "1")),
		"a resource that is not granted":            resources(with("nvidia.com/gpu", "1"), with("nvidia.com/gpu", "1")),
		"a negative amount of another resource":     resources(with("nvidia.com/gpu", "-1"), with("nvidia.com/gpu", "-1")),
		"ephemeral storage that is not granted":     resources(with("ephemeral-storage", "50Gi"), with("ephemeral-storage", "50Gi")),
		"huge pages that are not granted":           resources(with("hugepages-2Mi", "64Mi"), with("hugepages-2Mi", "64Mi")),
		"an amount that overflows":                  requests("9223372036854775807", "16Mi"),
		"an amount with an exponent that overflows": requests("1e40", "16Mi"),
		"resources of the pod as a whole":           set(map[string]any{"requests": amounts("10")}, "resources"),
		"an overhead":                               set(map[string]any{"cpu": "10", "memory": "1Gi"}, "overhead"),
		"a runtime class with an overhead":          set("heavy", "runtimeClassName"),
		"a negative init container":                 set([]any{e2etest.Container("a", amounts("-10"))}, "initContainers"),
		"two thousand containers":                   set(crowd(2000), "containers"),
		"a resource claim":                          set([]any{map[string]any{"name": "gpu", "resourceClaimTemplateName": "any"}}, "resourceClaims"),
		"an ephemeral container":                    set([]any{map[string]any{"name": "e", "image": "a"}}, "ephemeralContainers"),
		"a grace period of a year":                  set(int64(365*24*3600), "terminationGracePeriodSeconds"),
	})
	s.containPods(t, s.attacker, map[string]func(pod map[string]any){
		"more than the grant":                       requests("600m", "16Mi"),
		"more memory than the grant":                requests("100m", "257Mi"),
		"a large init container behind rounding":    set([]any{e2etest.Container("a", amounts("600m")), e2etest.Container("b", amounts("1m"))}, "initContainers"),
		"a large init container behind a small one": set([]any{e2etest.Container("a", amounts("1m")), e2etest.Container("b", amounts("999m"))}, "initContainers"),
		"sidecars above the grant":                  set([]any{beside("a", "300m"), beside("b", "300m")}, "initContainers"),
		"an init container beside sidecars":         set([]any{beside("a", "300m"), e2etest.Container("b", amounts("300m"))}, "initContainers"),
		"a sidecar beside the containers":           set([]any{beside("a", "450m")}, "initContainers"),
	})
	t.Run("more than the grant in many small pods", func(t *testing.T) { s.fill(t, s.attacker) })
}

// crowd returns many containers with tiny requests.
func crowd(n int) []any {
	var containers []any
	for i := range n {
		containers = append(containers, e2etest.Container(nameOf("c", i), map[string]any{"cpu": "1m", "memory": "1Mi"}))
	}
	return containers
}

// containPods creates ShadowPods whose pods exceed the grant, and which Liqo's quota admits because it adds up their
// amounts wrongly or counted the deletion of earlier ones twice (docs/liqo-advisory.md). The provider may refuse either
// the ShadowPod or its pod; the pod must never run.
func (s *scene) containPods(t *testing.T, c *tenant, changes map[string]func(pod map[string]any)) {
	t.Helper()
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			shadow := c.podWith(unused("stolen"), change)
			if err := c.kubelet.Create(t.Context(), shadow); err != nil {
				refused(t, err)
				return
			}
			s.neverRuns(t, shadow)
			s.removeAll(t, c)
		})
	}
}

// neverRuns fails the test if the pod of a ShadowPod exists once a later one has had its turn.
func (s *scene) neverRuns(t *testing.T, shadow client.Object) {
	t.Helper()
	s.awaitTurn(t)
	if err := s.provider.Get(t.Context(), client.ObjectKeyFromObject(shadow), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("its pod was made: %v", err)
	}
}

// fill creates pods until the grant is used up. Further pods must be refused or never run.
func (s *scene) fill(t *testing.T, c *tenant) {
	t.Helper()
	const fit = 5 // pods of 100m in a grant of 500m
	for range 12 {
		if err := c.kubelet.Create(t.Context(), c.pod(unused("small"))); err != nil {
			refused(t, err)
		}
	}
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) { return s.twins(ctx, c, fit) }))
	s.settleExcess(t, c)
}

// TestPodsThatReachTheHostAreRefused uses a slice's credentials to request access to the host.
func TestPodsThatReachTheHostAreRefused(t *testing.T) {
	s := open(t)
	volume := func(source map[string]any) func(pod map[string]any) {
		source["name"] = "v"
		return set([]any{source}, "volumes")
	}
	probe := map[string]any{"httpGet": map[string]any{"host": "169.254.169.254", "port": int64(80)}}
	tolerating := func(toleration map[string]any) func(pod map[string]any) { return set([]any{toleration}, "tolerations") }
	terms := func(kind string, term map[string]any) func(pod map[string]any) {
		return set(map[string]any{kind: map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": []any{term}}}, "affinity")
	}
	s.refusePods(t, s.attacker, map[string]func(pod map[string]any){
		"privileged":                             onMain(true, "securityContext", "privileged"),
		"all capabilities":                       onMain([]any{"ALL"}, "securityContext", "capabilities", "add"),
		"the capability to administer":           onMain([]any{"SYS_ADMIN"}, "securityContext", "capabilities", "add"),
		"raw sockets":                            onMain([]any{"NET_RAW"}, "securityContext", "capabilities", "add"),
		"an unmasked proc":                       onMain("Unmasked", "securityContext", "procMount"),
		"a Windows host process":                 onMain(true, "securityContext", "windowsOptions", "hostProcess"),
		"a Windows host process of the pod":      set(true, "securityContext", "windowsOptions", "hostProcess"),
		"no seccomp":                             onMain("Unconfined", "securityContext", "seccompProfile", "type"),
		"no seccomp in the whole pod":            set("Unconfined", "securityContext", "seccompProfile", "type"),
		"no AppArmor":                            onMain("Unconfined", "securityContext", "appArmorProfile", "type"),
		"an SELinux type":                        onMain("spc_t", "securityContext", "seLinuxOptions", "type"),
		"a sysctl":                               set([]any{map[string]any{"name": "kernel.msgmax", "value": "65536"}}, "securityContext", "sysctls"),
		"a port of the host":                     onMain([]any{map[string]any{"containerPort": int64(10250), "hostPort": int64(10250)}}, "ports"),
		"a privileged init container":            set([]any{privileged("init")}, "initContainers"),
		"the host's files":                       volume(map[string]any{"hostPath": map[string]any{"path": "/"}}),
		"an NFS share":                           volume(map[string]any{"nfs": map[string]any{"server": "10.0.0.1", "path": "/"}}),
		"a volume of a CSI driver":               volume(map[string]any{"csi": map[string]any{"driver": "secrets-store.csi.k8s.io"}}),
		"the host's network":                     set(true, "hostNetwork"),
		"the host's processes":                   set(true, "hostPID"),
		"the host's shared memory":               set(true, "hostIPC"),
		"a node of its choice":                   set("paris-1", "nodeName"),
		"a probe of the metadata service":        onMain(probe, "livenessProbe"),
		"a hook that calls the metadata service": onMain(map[string]any{"postStart": probe}, "lifecycle"),
		"every toleration":                       tolerating(map[string]any{"operator": "Exists"}),
		"the toleration of a control plane":      tolerating(map[string]any{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}),
		"the toleration of a cordoned node":      tolerating(map[string]any{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}),
		"the toleration of a node that goes":     tolerating(map[string]any{"key": "ToBeDeletedByClusterAutoscaler", "operator": "Exists"}),
		"a stay on a node that is not ready":     tolerating(map[string]any{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}),
		"a priority class":                       set("system-cluster-critical", "priorityClassName"),
		"a priority":                             set(int64(2000000000), "priority"),
		"a scheduler of its choice":              set("another", "schedulerName"),
		"a ServiceAccount of the provider":       set("builder", "serviceAccountName"),
		"a token of a ServiceAccount":            set(true, "automountServiceAccountToken"),
		"a projected token": volume(map[string]any{"projected": map[string]any{"sources": []any{
			map[string]any{"serviceAccountToken": map[string]any{"path": "token"}},
		}}}),
		"a claim that is made with the pod": volume(map[string]any{"ephemeral": map[string]any{"volumeClaimTemplate": map[string]any{"spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Pi"}},
		}}}}),
		"anti-affinity to the pods of everybody": terms("podAntiAffinity", map[string]any{
			"labelSelector": map[string]any{}, "namespaceSelector": map[string]any{}, "topologyKey": corev1.LabelTopologyRegion,
		}),
		"anti-affinity to the pods of another consumer": terms("podAntiAffinity", map[string]any{
			"labelSelector": map[string]any{}, "namespaces": []any{s.neighbour.landing}, "topologyKey": corev1.LabelHostname,
		}),
		"affinity to the pods of another consumer": terms("podAffinity", map[string]any{
			"labelSelector": map[string]any{}, "namespaces": []any{s.neighbour.landing}, "topologyKey": corev1.LabelHostname,
		}),
	})
}

func privileged(name string) map[string]any {
	c := e2etest.Container(name, map[string]any{"cpu": "100m", "memory": "16Mi"})
	c["securityContext"] = map[string]any{"privileged": true}
	return c
}

// TestShadowPodsThatLieAreRefused uses a slice's credentials to write ShadowPods with a false
// origin, or that others could not remove.
func TestShadowPodsThatLieAreRefused(t *testing.T) {
	s := open(t)
	c := s.attacker
	create := func(change func(shadow *unstructured.Unstructured)) attack { return s.create(t, c, change) }
	label := func(name, value string) attack {
		return create(func(shadow *unstructured.Unstructured) {
			labels := shadow.GetLabels()
			labels[name] = value
			shadow.SetLabels(labels)
		})
	}
	note := e2etest.Note(c.landing, "owner")
	check(t, c.kubelet.Create(t.Context(), note))
	t.Cleanup(func() { _ = c.kubelet.Delete(context.Background(), note) })
	refuseAll(t, map[string]attack{
		"another slice's name":       label("offloading.liqo.io/nodename", "res-other00000-1"),
		"another consumer's slice":   label("offloading.liqo.io/nodename", s.neighbour.slice),
		"another consumer as origin": label("offloading.liqo.io/origin", "berlin"),
		"the label of a placeholder": label("broker.fluidos.eu/placeholder", "true"),
		"the agent's own label":      label("app.kubernetes.io/managed-by", "liqo-resource-broker"),
		"no slice": create(func(shadow *unstructured.Unstructured) {
			shadow.SetLabels(map[string]string{"offloading.liqo.io/origin": "rome"})
		}),
		"a finalizer of its own":          create(func(shadow *unstructured.Unstructured) { shadow.SetFinalizers([]string{heldBy}) }),
		"a finalizer that leaves its pod": create(func(shadow *unstructured.Unstructured) { shadow.SetFinalizers([]string{"orphan"}) }),
		"a finalizer of Kubernetes":       create(func(shadow *unstructured.Unstructured) { shadow.SetFinalizers([]string{"foregroundDeletion"}) }),
		"an owner, so that the garbage collector deletes it": create(func(shadow *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(shadow.Object, []any{map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "name": note.Name, "uid": string(note.UID),
			}}, "metadata", "ownerReferences")
		}),
		"an annotation that turns AppArmor off": create(func(shadow *unstructured.Unstructured) {
			shadow.SetAnnotations(map[string]string{"container.apparmor.security.beta.kubernetes.io/main": "unconfined"})
		}),
		"a pod without a ShadowPod": func(ctx context.Context) error {
			return c.kubelet.Create(ctx, &corev1.Pod{ObjectMeta: named(c.landing, "stolen"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}})
		},
		"a ShadowPod in another consumer's namespace": func(ctx context.Context) error {
			return c.kubelet.Create(ctx, e2etest.ShadowPod("berlin", c.slice, s.neighbour.landing, "stolen"))
		},
		"a ShadowPod in a namespace of the provider": func(ctx context.Context) error {
			return c.kubelet.Create(ctx, e2etest.ShadowPod("rome", c.slice, "default", "stolen"))
		},
		"its own Quota": func(ctx context.Context) error {
			return c.kubelet.Patch(ctx, e2e.Object(e2e.QuotaKind, c.office, c.slice), merge(`{"spec":{"resources":{"cpu":"1000"}}}`))
		},
		"its own slice": func(ctx context.Context) error {
			return c.kubelet.Patch(ctx, e2e.Object(e2e.SliceKind, c.office, c.slice), merge(`{"spec":{"resources":{"cpu":"1000"}}}`))
		},
	})

	shadow := c.pod(unused("changed"))
	check(t, c.kubelet.Create(t.Context(), shadow))
	change := func(patch string) attack {
		return func(ctx context.Context) error { return c.kubelet.Patch(ctx, c.pod(shadow.GetName()), merge(patch)) }
	}
	refuseAll(t, map[string]attack{
		"another slice's name, later":       change(`{"metadata":{"labels":{"offloading.liqo.io/nodename":"` + s.neighbour.slice + `"}}}`),
		"no slice, later":                   change(`{"metadata":{"labels":{"offloading.liqo.io/nodename":null}}}`),
		"a finalizer, later":                change(`{"metadata":{"finalizers":["rome.example.com/stay"]}}`),
		"an owner, later":                   change(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"` + string(note.UID) + `"}]}}`),
		"the label of a placeholder, later": change(`{"metadata":{"labels":{"broker.fluidos.eu/placeholder":"true"}}}`),
		"a pod that is left behind": func(ctx context.Context) error {
			return c.kubelet.Delete(ctx, c.pod(shadow.GetName()), client.PropagationPolicy("Orphan"))
		},
		"a deletion in the foreground": func(ctx context.Context) error {
			return c.kubelet.Delete(ctx, c.pod(shadow.GetName()), client.PropagationPolicy("Foreground"))
		},
	})
	check(t, c.kubelet.Delete(t.Context(), shadow, client.PropagationPolicy("Background")))
	s.awaitNoPods(t, c)
}

// merge returns a JSON merge patch.
func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }
