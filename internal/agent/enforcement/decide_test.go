package enforcement

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// pod returns a pod with a creation time in seconds after noon.
func pod(name string, second int, millicores int64) Pod {
	return Pod{
		NamespacedName: types.NamespacedName{Namespace: "demo-rome", Name: name}, Placement: "res-0123456789-1",
		Created: noon.Add(time.Duration(second) * time.Second),
		Request: quantity.Amounts{corev1.ResourceCPU: millicores, corev1.ResourcePods: 1},
	}
}

func evicted(p Pod) Pod {
	p.Evicted = true
	return p
}

func names(pods []Pod) (out []string) {
	for i := range pods {
		out = append(out, pods[i].Name)
	}
	return out
}

func TestVictimsAreTheNewestPodsUntilTheRestFits(t *testing.T) {
	limits := quantity.Amounts{corev1.ResourceCPU: 500, corev1.ResourcePods: 3}
	reduced := Allowance{Limits: limits, Before: quantity.Amounts{corev1.ResourceCPU: 1000, corev1.ResourcePods: 3}, Reduced: noon.Add(10 * time.Second)}
	for name, tc := range map[string]struct {
		pods  []Pod
		allow Allowance
		want  []string
	}{
		"pods that fit stay":                           {pods: []Pod{pod("a", 1, 250), pod("b", 2, 250)}},
		"the newest pod goes":                          {pods: []Pod{pod("new", 2, 250), pod("old", 1, 500)}, want: []string{"new"}},
		"as many go as it takes":                       {pods: []Pod{pod("a", 1, 400), pod("b", 2, 400), pod("c", 3, 400)}, want: []string{"c", "b"}},
		"pods of one second go by name":                {pods: []Pod{pod("b", 1, 400), pod("a", 1, 400)}, want: []string{"b"}},
		"one pod that alone exceeds the grant goes":    {pods: []Pod{pod("a", 1, 501)}, want: []string{"a"}},
		"more pods than granted":                       {pods: []Pod{pod("a", 1, 1), pod("b", 2, 1), pod("c", 3, 1), pod("d", 4, 1)}, want: []string{"d"}},
		"a pod that uses nothing of it is spared":      {pods: []Pod{pod("big", 1, 600), pod("idle", 2, 0)}, want: []string{"big"}},
		"a pod on its way out makes room":              {pods: []Pod{pod("a", 1, 500), evicted(pod("b", 2, 500))}},
		"and is not chosen again":                      {pods: []Pod{evicted(pod("a", 1, 5000))}},
		"pods from before a reduction stay":            {pods: []Pod{pod("a", 1, 500), pod("b", 10, 500)}, allow: reduced},
		"a pod from after it has to fit what is left":  {pods: []Pod{pod("a", 1, 500), pod("b", 11, 100)}, allow: reduced, want: []string{"b"}},
		"pods from before it never exceed what it was": {pods: []Pod{pod("a", 1, 500), pod("b", 2, 600)}, allow: reduced, want: []string{"b"}},
		"and those from after it go first":             {pods: []Pod{pod("a", 1, 600), pod("b", 2, 400), pod("c", 12, 1)}, allow: reduced, want: []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.allow.Limits == nil {
				tc.allow.Limits = limits
			}
			if diff := cmp.Diff(tc.want, names(Victims(tc.pods, tc.allow))); diff != "" {
				t.Errorf("victims (-want +got):\n%s", diff)
			}
			if within := len(tc.allow.Beyond(slices.DeleteFunc(tc.pods, func(p Pod) bool { return p.Evicted }))) == 0; within != (len(tc.want) == 0) {
				t.Errorf("the pods are within the allowance: %t", within)
			}
		})
	}
}

func TestUnnamedResourcesAreNotGranted(t *testing.T) {
	limits, err := LimitsOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")})
	runtest.Check(t, err)
	got := Excess(quantity.Amounts{corev1.ResourceCPU: 500, gpu: 1, corev1.ResourcePods: DefaultPods + 2}, limits)
	if diff := cmp.Diff(quantity.Amounts{gpu: 1, corev1.ResourcePods: 2}, got); diff != "" {
		t.Errorf("excess (-want +got):\n%s", diff)
	}
	if _, err := LimitsOf(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("-1")}); err == nil {
		t.Error("a negative grant is no grant")
	}
}

func TestRequestsAreThoseOfTheScheduler(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		cpu  int64
	}{
		"containers add up":                         {`{containers: [{name: a, resources: {requests: {cpu: 100m}}}, {name: b, resources: {requests: {cpu: 200m}}}]}`, 300},
		"an init container counts where it is more": {`{initContainers: [{name: i, resources: {requests: {cpu: 1}}}], containers: [{name: a, resources: {requests: {cpu: 100m}}}]}`, 1000},
		"a sidecar runs beside the containers":      {`{initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 400m}}}], containers: [{name: a, resources: {requests: {cpu: 100m}}}]}`, 500},
		"and beside later init containers": {`{initContainers: [{name: s, restartPolicy: Always, resources: {requests: {cpu: 400m}}}, {name: i, resources: {requests: {cpu: 300m}}}],
			containers: [{name: a, resources: {requests: {cpu: 100m}}}]}`, 700},
		"the largest of many init containers counts, not the first": {`{initContainers: [{name: i, resources: {requests: {cpu: 1m}}}, {name: j, resources: {requests: {cpu: 999m}}}],
			containers: [{name: a, resources: {requests: {cpu: 1m}}}]}`, 999},
		"overhead counts":                         {`{overhead: {cpu: 50m}, containers: [{name: a, resources: {requests: {cpu: 100m}}}]}`, 150},
		"resources of the pod as a whole count":   {`{resources: {requests: {cpu: 2}}, containers: [{name: a, resources: {requests: {cpu: 100m}}}]}`, 2000},
		"fractions of a millicore are rounded up": {`{containers: [{name: a, resources: {requests: {cpu: 100u}}}]}`, 1},
		"a negative request counts for nothing":   {`{containers: [{name: a, resources: {requests: {cpu: "-100"}}}]}`, 0},
		"no amount overflows":                     {`{containers: [{name: a, resources: {requests: {cpu: 8E}}}]}`, mostUnits},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{}
			runtest.Check(t, yaml.Unmarshal([]byte("{spec: "+tc.spec+"}"), p))
			got := RequestOf(p)
			if got[corev1.ResourceCPU] != tc.cpu || got[corev1.ResourcePods] != 1 {
				t.Errorf("requests %v, want %d millicores and one pod", got, tc.cpu)
			}
		})
	}
}

// requestOracle sums millicores as KEP-753 describes it, without Kubernetes' own code.
func requestOracle(init []initContainer, containers []int64, overhead int64) int64 {
	var sidecars, most int64
	for _, c := range init {
		if c.sidecar {
			sidecars += c.cpu
			most = max(most, sidecars)
		} else {
			most = max(most, sidecars+c.cpu)
		}
	}
	sum := sidecars
	for _, c := range containers {
		sum += c
	}
	return max(sum, most) + overhead
}

type initContainer struct {
	cpu     int64
	sidecar bool
}

func TestRequestsAgreeWithAnIndependentOracle(t *testing.T) {
	amount := rapid.Int64Range(0, 4000)
	milli := func(v int64) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(v, resource.DecimalSI)}}
	}
	rapid.Check(t, func(t *rapid.T) {
		init := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) initContainer {
			return initContainer{cpu: amount.Draw(t, "cpu"), sidecar: rapid.Bool().Draw(t, "sidecar")}
		}), 0, 4).Draw(t, "init")
		containers := rapid.SliceOfN(amount, 1, 4).Draw(t, "containers")
		overhead := amount.Draw(t, "overhead")
		p := &corev1.Pod{}
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(overhead, resource.DecimalSI)}
		for i, c := range init {
			container := corev1.Container{Name: fmt.Sprintf("i%d", i), Resources: milli(c.cpu)}
			if c.sidecar {
				container.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, container)
		}
		for i, c := range containers {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprintf("c%d", i), Resources: milli(c)})
		}
		if got, want := RequestOf(p)[corev1.ResourceCPU], requestOracle(init, containers, overhead); got != want {
			t.Fatalf("%d millicores, the oracle says %d", got, want)
		}
	})
}

// anyPods draws pods, whose requests may exceed the limits.
func anyPods(t *rapid.T) []Pod {
	var pods []Pod
	for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
		p := pod(fmt.Sprintf("p%02d", i), rapid.IntRange(0, 6).Draw(t, "second"), rapid.Int64Range(0, 600).Draw(t, "cpu"))
		if n := rapid.Int64Range(-2, 3).Draw(t, "gpus"); n > 0 {
			p.Request[gpu] = n
		}
		p.Evicted = rapid.IntRange(0, 4).Draw(t, "evicted") == 0
		pods = append(pods, p)
	}
	return pods
}

func sumOf(pods []Pod, name corev1.ResourceName) *big.Int {
	sum := new(big.Int)
	for i := range pods {
		sum.Add(sum, big.NewInt(pods[i].Request[name]))
	}
	return sum
}

func TestVictimsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := quantity.Amounts{
			corev1.ResourceCPU: rapid.Int64Range(0, 2000).Draw(t, "limit"), gpu: rapid.Int64Range(0, 4).Draw(t, "gpus granted"),
			corev1.ResourcePods: rapid.Int64Range(0, 8).Draw(t, "pods granted"),
		}
		pods := anyPods(t)
		victims := Victims(pods, Allowance{Limits: limits})
		isVictim := func(p Pod) bool {
			return slices.ContainsFunc(victims, func(v Pod) bool { return v.NamespacedName == p.NamespacedName })
		}
		var survivors []Pod
		for _, p := range pods {
			if !p.Evicted && !isVictim(p) {
				survivors = append(survivors, p)
			}
			if p.Evicted && isVictim(p) {
				t.Fatalf("%s was evicted before", p.Name)
			}
		}
		for name, limit := range limits {
			if sumOf(survivors, name).Cmp(big.NewInt(limit)) > 0 {
				t.Fatalf("the survivors use %s of %s, %d is granted", sumOf(survivors, name), name, limit)
			}
		}
		if len(victims) > 0 {
			last := victims[len(victims)-1]
			if len(Excess(Used(append(survivors, last)), limits)) == 0 {
				t.Fatalf("%s need not have gone", last.Name)
			}
		}
		for _, v := range victims {
			for _, s := range survivors {
				if s.Created.After(v.Created) && s.Request[corev1.ResourceCPU] >= v.Request[corev1.ResourceCPU] && s.Request[gpu] >= v.Request[gpu] {
					t.Fatalf("%s survives, which is newer than %s and uses no less", s.Name, v.Name)
				}
			}
		}
		if diff := cmp.Diff(names(victims), names(Victims(rapid.Permutation(pods).Draw(t, "order"), Allowance{Limits: limits}))); diff != "" {
			t.Fatalf("the order of the pods matters:\n%s", diff)
		}
	})
}

// Counting a pod neither panics nor yields a negative amount, for any quantities.
func FuzzRequestOf(f *testing.F) {
	for _, seed := range []string{"1", "-1", "8E", "-8E", "1e30", "100u", "0.0000000001", "9223372036854775807k", "1n"} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, cpu, memory string) {
		list := corev1.ResourceList{}
		for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if q, err := resource.ParseQuantity(text); err == nil {
				list[name] = q
			}
		}
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list}}}}}
		for name, amount := range RequestOf(p) {
			if amount <= 0 || amount > mostUnits {
				t.Errorf("%s counts as %d", name, amount)
			}
		}
	})
}
