package enforcement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"pgregory.net/rapid"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func lent(t runtest.T, selector string, barred ...string) LentNodes {
	s, err := labels.Parse(selector)
	runtest.Check(t, err)
	return LentNodes{Selector: s, Barred: barred}
}

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func TestConfineAllowsLentNodesOnly(t *testing.T) {
	nodes := []*corev1.Node{
		node("lent", map[string]string{"pool": "lend", "zone": "a"}),
		node("lent-b", map[string]string{"pool": "lend", "zone": "b"}),
		node("kept", map[string]string{"pool": "own", "zone": "a"}),
		node("spot", map[string]string{"pool": "lend", "spot": "", "zone": "a"}),
		node("virtual", map[string]string{"pool": "lend", "liqo.io/type": "virtual-node"}),
		node("master", map[string]string{"pool": "lend", "node-role.kubernetes.io/control-plane": ""}),
		node("barred", map[string]string{"pool": "lend", "zone": "a"}),
	}
	pool := lent(t, "pool=lend,!spot", "barred")
	everything := lent(t, "")
	planes := lent(t, "")
	planes.ControlPlanes = true
	nothing := LentNodes{Selector: labels.Nothing()}
	zoned := pool
	zoned.Labels = map[string]string{"zone": "b", "pool": "lend"}
	for name, tc := range map[string]struct {
		lent LentNodes
		spec string
		want []string
	}{
		"no affinity of its own":                 {pool, `{}`, []string{"lent", "lent-b"}},
		"its node selector still counts":         {pool, `{nodeSelector: {zone: b}}`, []string{"lent-b"}},
		"a node selector opens nothing":          {pool, `{nodeSelector: {pool: own}}`, nil},
		"each of its own terms is confined":      {pool, `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}, {matchExpressions: [{key: pool, operator: Exists}]}]}}}}`, []string{"lent", "lent-b"}},
		"a term by name is confined":             {pool, `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [kept]}]}]}}}}`, nil},
		"an empty term still matches nothing":    {pool, `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}}`, nil},
		"preferences stay":                       {pool, `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}]}}}`, []string{"lent", "lent-b"}},
		"everything is lent":                     {everything, `{}`, []string{"lent", "lent-b", "kept", "spot", "barred"}},
		"control planes that take ordinary pods": {planes, `{}`, []string{"lent", "lent-b", "kept", "spot", "master", "barred"}},
		"nothing is lent":                        {nothing, `{}`, nil},
		"bound to the granted labels":            {zoned, `{}`, []string{"lent-b"}},
		"bound though it selects other nodes":    {zoned, `{nodeSelector: {zone: a}}`, nil},
		"each of its own terms is bound":         {zoned, `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}, {matchFields: [{key: metadata.name, operator: In, values: [lent]}]}]}}}}`, []string{"lent-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{}
			runtest.Check(t, yaml.Unmarshal([]byte("{spec: "+tc.spec+"}"), p))
			if len(tc.lent.Labels) > 0 && IsBound(&p.Spec, tc.lent.Labels) {
				t.Error("the pod counts as bound before it is")
			}
			tc.lent.Confine(&p.Spec)
			if !IsBound(&p.Spec, tc.lent.Labels) {
				t.Error("the pod does not count as bound")
			}
			var got []string
			for _, n := range nodes {
				if ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil {
					t.Fatal(err)
				} else if ok {
					got = append(got, n.Name)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if again := p.DeepCopy(); tc.lent.Confine(&again.Spec) {
				t.Errorf("a second look changes the pod:\n%s", cmp.Diff(p.Spec, again.Spec))
			}
		})
	}
}

func TestPodsTolerateExactlyWhatTheirPlacementWasGranted(t *testing.T) {
	notReady := corev1.Toleration{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}
	gpu := corev1.Toleration{Key: "dedicated", Operator: "Equal", Value: "gpu", Effect: "NoSchedule"}
	device := corev1.Toleration{Key: "nvidia.com/gpu", Operator: "Exists"}
	l := lent(t, "")
	l.Taints = []brokerv1alpha1.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}, {Key: "spot", Effect: "NoExecute"}}
	for name, tc := range map[string]struct {
		granted []brokerv1alpha1.Toleration
		amounts corev1.ResourceList
		pod     []corev1.Toleration
		devices string
		want    []corev1.Toleration
		strange string
	}{
		"nothing is granted":                {pod: []corev1.Toleration{notReady}, want: []corev1.Toleration{notReady}},
		"a granted one is added":            {granted: []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}, pod: []corev1.Toleration{notReady}, want: []corev1.Toleration{notReady, gpu}},
		"one that is not offered is not":    {granted: []brokerv1alpha1.Toleration{{Key: "payroll"}}},
		"an offered one that nobody grants": {pod: []corev1.Toleration{gpu}, strange: "dedicated"},
		"a wider one than granted":          {granted: []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}, pod: []corev1.Toleration{{Key: "dedicated", Operator: "Exists"}}, want: []corev1.Toleration{gpu}, strange: "dedicated"},
		"of a taint that is yet to come":    {pod: []corev1.Toleration{{Key: "payroll", Operator: "Exists"}, notReady}, want: []corev1.Toleration{notReady}, strange: "payroll"},
		"every taint":                       {pod: []corev1.Toleration{{Operator: "Exists"}}, strange: "every taint"},
		"of a device that it requests":      {pod: []corev1.Toleration{device}, devices: "1", want: []corev1.Toleration{device}},
		"of a device that it does not":      {pod: []corev1.Toleration{device}, strange: "nvidia.com/gpu"},
		"of a granted device": {
			amounts: corev1.ResourceList{"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1")}, want: []corev1.Toleration{device},
		},
		"of a granted device, differently": {
			amounts: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}, want: []corev1.Toleration{device}, strange: "nvidia.com/gpu",
			pod: []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: "Equal", Value: "present"}},
		},
		"of none of a device": {
			amounts: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")}, pod: []corev1.Toleration{device}, strange: "nvidia.com/gpu",
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := l.For(&agentv1alpha1.ProviderInstructionSpec{Tolerations: tc.granted, Resources: tc.amounts})
			spec := &corev1.PodSpec{Tolerations: tc.pod, Containers: []corev1.Container{{Name: "a"}}}
			if tc.devices != "" {
				spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(tc.devices)}
			}
			if got := nodes.StrangeToleration(spec); got != tc.strange {
				t.Errorf("strange: %q, want %q", got, tc.strange)
			}
			nodes.Confine(spec)
			if diff := cmp.Diff(tc.want, spec.Tolerations, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("tolerations (-want +got):\n%s", diff)
			}
			if nodes.StrangeToleration(spec) != "" || nodes.Confine(spec.DeepCopy()) {
				t.Error("a second look changes the pod")
			}
		})
	}
}

// A confined pod may run exactly on those of its previous nodes that the operator lends.
func TestConfineProperty(t *testing.T) {
	keys, values := []string{"pool", "zone", "size"}, []string{"1", "2", "3"}
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.MapOf(rapid.SampledFrom(keys), rapid.SampledFrom(values))
		selector := rapid.SampledFrom([]string{"", "pool", "!pool", "pool=1", "pool!=1", "pool in (1,2)", "pool notin (1,2)", "size>1", "size<3", "pool=1,!zone"}).Draw(t, "selector")
		l := lent(t, selector)
		p := &corev1.Pod{}
		p.Spec.NodeSelector = set.Draw(t, "node selector")
		if rapid.Bool().Draw(t, "affinity") {
			required := &corev1.NodeSelector{}
			for range rapid.IntRange(1, 3).Draw(t, "terms") {
				var term corev1.NodeSelectorTerm
				for k, v := range set.Draw(t, "term") {
					term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: k, Operator: corev1.NodeSelectorOpIn, Values: []string{v}})
				}
				required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
			}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
		}
		before := p.DeepCopy()
		l.Confine(&p.Spec)
		n := node("any", set.Draw(t, "node"))
		could, err := nodeaffinity.GetRequiredNodeAffinity(before).Match(n)
		can, err2 := nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if want := could && l.Selector.Matches(labels.Set(n.Labels)); can != want {
			t.Fatalf("node %v with selector %q: %t, want %t", n.Labels, selector, can, want)
		}
	})
}
