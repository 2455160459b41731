package guardtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An independent implementation in Go checks the decisions of the pods policy on random pods, with and without the
// webhook that counts pods.
func (c *cluster) testPolicyMatchesItsRulesOnRandomPods() {
	c.Helper()
	for values, webhook := range map[string]bool{"{}": true, "{webhook: {enabled: false}}": false} {
		s := c.openSite(fmt.Sprintf("webhook-%t", webhook), values, "-pods")
		number, refused := 1500, 0
		if testing.Short() {
			number = 200
		}
		source := rand.New(rand.NewPCG(7, uint64(len(values))))
		for i := range number {
			obj := s.shadowPod("random", func(_ testing.TB, pod map[string]any) { scramble(source, pod) })
			pod := obj.Object["spec"].(map[string]any)["pod"].(map[string]any)
			want := reasonToRefuse(pod, webhook)
			err := s.peer.Create(c.Context(), obj, client.DryRunAll)
			if apierrors.IsInvalid(err) || (err == nil) != (want == "") {
				c.Errorf("webhook %t, pod %d: the rules say %q, the policy: %v\n%v", webhook, i, want, err, pod)
			}
			if err != nil {
				refused++
			}
		}
		c.Logf("webhook %t: %d random pods, %d of them refused", webhook, number, refused)
		if refused < number/10 || refused > number*9/10 {
			c.Errorf("%d of %d random pods are refused, which tests one side only", refused, number)
		}
	}
}

// scrambled are parts of pods, with values on both sides of the rules.
var scrambled = []choice{
	{[]string{"nodeName"}, []any{"a"}}, {[]string{"overhead"}, []any{map[string]any{"cpu": "1"}}}, {[]string{"hostUsers"}, []any{false}},
	{[]string{"hostNetwork"}, []any{true, false, false}}, {[]string{"hostPID"}, []any{true, false, false}}, {[]string{"hostIPC"}, []any{true, false, false}},
	{[]string{"hostname"}, []any{"a"}}, {[]string{"activeDeadlineSeconds"}, []any{int64(5)}}, {[]string{"nodeSelector"}, []any{map[string]any{"a": "b"}}},
	{[]string{"terminationGracePeriodSeconds"}, []any{int64(0), int64(600), int64(601), int64(-1)}},
	{[]string{"serviceAccountName"}, []any{"", "default"}}, {[]string{"automountServiceAccountToken"}, []any{true, false, false}},
	{[]string{"runtimeClassName"}, []any{"a"}},
	{[]string{"volumes"}, []any{
		[]any{map[string]any{"name": "a", "emptyDir": map[string]any{"sizeLimit": "1Gi"}}, map[string]any{"name": "b", "configMap": map[string]any{"name": "a"}}},
		[]any{map[string]any{"name": "a", "emptyDir": map[string]any{"sizeLimit": "-1Gi"}}}, []any{map[string]any{"name": "a", "hostPath": map[string]any{"path": "/"}}},
		[]any{map[string]any{"name": "a", "projected": map[string]any{"sources": []any{map[string]any{"secret": map[string]any{"name": "a"}}}}}},
		[]any{map[string]any{"name": "a", "projected": map[string]any{"sources": []any{map[string]any{"serviceAccountToken": map[string]any{"path": "a"}}}}}}, []any{map[string]any{"name": "a"}}}},
	{[]string{"tolerations"}, []any{
		[]any{map[string]any{"operator": "Exists"}}, []any{map[string]any{"key": "nvidia.com/gpu", "operator": "Exists"}}, []any{map[string]any{"key": "example.kubernetes.io/a"}},
		[]any{map[string]any{"key": "pool"}, map[string]any{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}}, []any{map[string]any{"key": "node.kubernetes.io/memory-pressure"}},
		[]any{map[string]any{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": int64(86400)}},
		[]any{map[string]any{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": int64(86401)}}, []any{map[string]any{"key": "notkubernetes.io/a"}}, []any{map[string]any{"key": "kubernetes.io/arch"}}}},
	{[]string{"affinity"}, []any{
		map[string]any{"nodeAffinity": map[string]any{}}, map[string]any{"podAffinity": map[string]any{}}, map[string]any{"podAntiAffinity": map[string]any{}},
		map[string]any{"podAntiAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{"topologyKey": "a"}, map[string]any{"topologyKey": "a", "namespaces": []any{"b"}}}}},
		map[string]any{"podAntiAffinity": map[string]any{"preferredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{"weight": int64(1), "podAffinityTerm": map[string]any{"topologyKey": "a", "namespaceSelector": map[string]any{}}}}}}}},
}

var (
	cpus     = []any{"1m", "100m", "999m", "1", int64(2), "2500m", "0.1", "1e0", "100m", "100m", "100m", "100m"}
	badCPUs  = []any{"0", "1n", "-1", int64(-1), "1e999999", "999999999999999999999"}
	memories = []any{"1", "64Mi", "64Mi", int64(1048576), "1Gi"}
)

func scramble(source *rand.Rand, pod map[string]any) {
	for _, c := range scrambled {
		if source.IntN(24) == 0 {
			_ = unstructured.SetNestedField(pod, c.values[source.IntN(len(c.values))], c.path...)
		}
	}
	pick := func(from []any) any { return from[source.IntN(len(from))] }
	some := func(prefix string, n int) (list []any) {
		for i := range n {
			requests := map[string]any{"cpu": pick(cpus), "memory": pick(memories)}
			if source.IntN(60) == 0 {
				requests["cpu"] = pick(badCPUs)
			}
			if source.IntN(60) == 0 {
				delete(requests, []string{"cpu", "memory"}[source.IntN(2)])
			}
			limits := map[string]any{"memory": "64Mi"}
			if source.IntN(60) == 0 {
				limits["nvidia.com/gpu"] = int64(1)
			}
			c := map[string]any{"name": fmt.Sprintf("%s%d", prefix, i), "resources": map[string]any{"requests": requests, "limits": limits}}
			if source.IntN(40) == 0 {
				delete(c, "resources")
			}
			if prefix == "init" && source.IntN(8) == 0 {
				c["restartPolicy"] = "Always"
			}
			list = append(list, c)
		}
		return list
	}
	pod["containers"] = some("main", 1+source.IntN(3))
	if init := some("init", source.IntN(4)); len(init) > 0 {
		pod["initContainers"] = init
	}
}

// reasonToRefuse implements the rules of the pods policy with the default values. It returns "" for an admitted pod.
func reasonToRefuse(pod map[string]any, webhook bool) string {
	for _, judge := range []func(map[string]any) string{fieldReason, volumeReason, tolerationReason, affinityReason} {
		if reason := judge(pod); reason != "" {
			return reason
		}
	}
	return amountReason(pod, webhook)
}

func fieldReason(pod map[string]any) string {
	for _, field := range []string{"nodeName", "overhead", "hostUsers", "runtimeClassName"} {
		if _, has := pod[field]; has {
			return field
		}
	}
	grace, _ := pod["terminationGracePeriodSeconds"].(int64)
	name, _ := pod["serviceAccountName"].(string)
	switch {
	case pod["hostNetwork"] == true, pod["hostPID"] == true, pod["hostIPC"] == true:
		return "host"
	case grace < 0, grace > 600:
		return "grace"
	case name != "", pod["automountServiceAccountToken"] != false:
		return "account"
	}
	return ""
}

func mapsOf(parent map[string]any, path ...string) (all []map[string]any) {
	list, _, _ := unstructured.NestedSlice(parent, path...)
	for _, item := range list {
		all = append(all, item.(map[string]any))
	}
	return all
}

func volumeReason(pod map[string]any) string {
	for _, v := range mapsOf(pod, "volumes") {
		size, _, _ := unstructured.NestedString(v, "emptyDir", "sizeLimit")
		if v["hostPath"] != nil || strings.HasPrefix(size, "-") {
			return "volume"
		}
		for _, source := range mapsOf(v, "projected", "sources") {
			if source["serviceAccountToken"] != nil {
				return "token"
			}
		}
	}
	return ""
}

func tolerationReason(pod map[string]any) string {
	for _, t := range mapsOf(pod, "tolerations") {
		key, _ := t["key"].(string)
		effect, _ := t["effect"].(string)
		seconds, bounded := t["tolerationSeconds"].(int64)
		domain, _, prefixed := strings.Cut(key, "/")
		reserved := prefixed && (domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"))
		switch {
		case key == "":
			return "every taint"
		case slices.Contains([]string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}, key):
			if effect != "NoExecute" || !bounded || seconds > 86400 {
				return key
			}
		case key == "node.kubernetes.io/memory-pressure":
			if effect != "NoSchedule" {
				return key
			}
		case reserved:
			return key
		}
	}
	return ""
}

func affinityReason(pod map[string]any) string {
	affinity, _ := pod["affinity"].(map[string]any)
	if affinity["podAffinity"] != nil {
		return "podAffinity"
	}
	terms := mapsOf(affinity, "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	for _, preferred := range mapsOf(affinity, "podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution") {
		terms = append(terms, preferred["podAffinityTerm"].(map[string]any))
	}
	for _, term := range terms {
		if term["namespaces"] != nil || term["namespaceSelector"] != nil {
			return "anti-affinity"
		}
	}
	return ""
}

// amountReason adds up the requests of a pod once as Liqo's getQuotaFromShadowPod does and once as Kubernetes does. It
// returns why the policy refuses the pod, for example because Liqo's sum is too small; "" if nothing is wrong.
func amountReason(pod map[string]any, webhook bool) string {
	main, init := mapsOf(pod, "containers"), mapsOf(pod, "initContainers")
	var sum, counted resource.Quantity
	var largest resource.Quantity
	for i, c := range slices.Concat(main, init) {
		requests, _, _ := unstructured.NestedMap(c, "resources", "requests")
		limits, _, _ := unstructured.NestedMap(c, "resources", "limits")
		for name := range limits {
			if requests[name] == nil {
				return "limit"
			}
		}
		if requests["cpu"] == nil || requests["memory"] == nil || slices.Contains(badCPUs, requests["cpu"]) {
			return "requests of " + c["name"].(string)
		}
		cpu := resource.MustParse(fmt.Sprint(requests["cpu"]))
		switch {
		case i < len(main):
			sum.Add(cpu)
			continue
		case c["restartPolicy"] == "Always" && !webhook:
			return "sidecar"
		case counted.Value() < cpu.Value():
			counted = cpu
		}
		if largest.Cmp(cpu) < 0 {
			largest = cpu
		}
	}
	if !webhook && largest.Cmp(counted) > 0 && largest.Cmp(sum) > 0 {
		return "Liqo counts too little"
	}
	return ""
}
