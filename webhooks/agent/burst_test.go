package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func burstPolicy(name, app string) agentv1alpha1.BurstPolicy {
	p := agentv1alpha1.BurstPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	if app != "" {
		p.Spec.Selector = &agentv1alpha1.PodSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{"app": brokerv1alpha1.LabelValue(app)}}
	}
	return p
}

func burstPodFrom(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "batch"}}}
	runtest.Check(t, yaml.Unmarshal([]byte(spec), &pod.Spec))
	return pod
}

const burstable = `containers: [{name: a, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}}]
`

func TestPreparedPodsUseNodesOfThisClusterAndOfTheirPolicies(t *testing.T) {
	pod := burstPodFrom(t, burstable)
	policies := []agentv1alpha1.BurstPolicy{burstPolicy("other", "web"), burstPolicy("second", ""), burstPolicy("first", "batch")}
	if warnings, changed := prepareBurst(pod, "team", policies); !changed || len(warnings) > 0 {
		t.Fatalf("changed %t, warnings %v", changed, warnings)
	}
	nodes := map[string]struct {
		labels map[string]string
		want   bool
	}{
		"a node of this cluster":                             {map[string]string{"disk": "ssd"}, true},
		"a virtual node of the first policy":                 {map[string]string{"liqo.io/type": "virtual-node", "broker.fluidos.eu/reservation": "res-a", "broker.fluidos.eu/burst": "first", "namespace.broker.fluidos.eu/team": "true"}, true},
		"a virtual node of the second policy":                {map[string]string{"liqo.io/type": "virtual-node", "broker.fluidos.eu/reservation": "res-a", "broker.fluidos.eu/burst": "second", "namespace.broker.fluidos.eu/team": "true"}, true},
		"a virtual node of a policy that does not select it": {map[string]string{"liqo.io/type": "virtual-node", "broker.fluidos.eu/reservation": "res-a", "broker.fluidos.eu/burst": "other", "namespace.broker.fluidos.eu/team": "true"}, false},
		"a virtual node of another namespace":                {map[string]string{"liqo.io/type": "virtual-node", "broker.fluidos.eu/reservation": "res-a", "broker.fluidos.eu/burst": "first", "namespace.broker.fluidos.eu/other": "true"}, false},
		"a virtual node of a user's request":                 {map[string]string{"liqo.io/type": "virtual-node", "broker.fluidos.eu/reservation": "res-a", "namespace.broker.fluidos.eu/team": "true"}, false},
		"a virtual node without a reservation":               {map[string]string{"liqo.io/type": "virtual-node"}, false},
	}
	for name, tc := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: tc.labels}}
		if got, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || got != tc.want {
			t.Errorf("%s: allowed %t, %v", name, got, err)
		}
	}
	requests := pod.Spec.Containers[0].Resources
	if q := requests.Requests[corev1.ResourceMemory]; q.String() != "128Mi" || requests.Limits.Cpu().String() != "100m" {
		t.Errorf("resources %+v", requests)
	}
	// A prepared pod can burst, and the agent's other webhook for pods does not change it again.
	pod.Namespace = "team"
	if k := burst.KindOf(pod, []burst.Selection{{Namespace: "team", Name: "first"}}); k.Skip != "" {
		t.Errorf("the prepared pod is skipped: %s", k.Skip)
	}
	before := pod.DeepCopy()
	if confineToNamespace(pod, "team", selectsVirtualNodes(&pod.Spec)) || !cmp.Equal(before, pod) {
		t.Errorf("the webhook for pods that tolerate virtual nodes changes it:\n%s", cmp.Diff(before, pod))
	}
	if _, changed := prepareBurst(pod, "team", policies); changed {
		t.Error("it is prepared twice")
	}
}

func TestOwnAffinityStaysInForce(t *testing.T) {
	pod := burstPodFrom(t, burstable+`
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}, {matchExpressions: [{key: topology.kubernetes.io/region, operator: In, values: [eu-south]}]}]}}}`)
	if _, changed := prepareBurst(pod, "team", []agentv1alpha1.BurstPolicy{burstPolicy("first", "")}); !changed {
		t.Fatal("it is not prepared")
	}
	for region, want := range map[string]bool{"eu-south": true, "eu-west": false} {
		for _, labels := range []map[string]string{{}, {"liqo.io/type": "virtual-node", "broker.fluidos.eu/reservation": "r", "broker.fluidos.eu/burst": "first", "namespace.broker.fluidos.eu/team": "true"}} {
			labels[corev1.LabelTopologyRegion] = region
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
			if got, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || got != want {
				t.Errorf("node with labels %v: allowed %t, %v", labels, got, err)
			}
		}
	}
}

func TestPodsThatCannotBurstStayUnchanged(t *testing.T) {
	all := []agentv1alpha1.BurstPolicy{burstPolicy("first", "")}
	for name, tc := range map[string]struct {
		spec     string
		policies []agentv1alpha1.BurstPolicy
		warns    string
	}{
		"no policy":                    {burstable, nil, ""},
		"a policy that selects others": {burstable, []agentv1alpha1.BurstPolicy{burstPolicy("first", "web")}, ""},
		"a pod with a node":            {burstable + `nodeName: n1`, all, ""},
		"a pod that selects a request": {burstable + `nodeSelector: {broker.fluidos.eu/request: mine}`, all, ""},
		"a pod for local nodes":        {burstable + `nodeSelector: {disk: ssd}`, all, "excludes the virtual nodes"},
		"the network of the node":      {burstable + `hostNetwork: true`, all, "its node's network"},
		"a claim":                      {burstable + `volumes: [{name: a, persistentVolumeClaim: {claimName: a}}]`, all, "PersistentVolumeClaim"},
		"a container without requests": {`containers: [{name: a}]`, all, "requests no cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := burstPodFrom(t, tc.spec)
			before := pod.DeepCopy()
			warnings, changed := prepareBurst(pod, "team", tc.policies)
			if changed || !cmp.Equal(before, pod) {
				t.Errorf("it is changed:\n%s", cmp.Diff(before, pod))
			}
			if !strings.Contains(strings.Join(warnings, "\n"), tc.warns) || (tc.warns == "") != (len(warnings) == 0) {
				t.Errorf("warnings %q, want %q", warnings, tc.warns)
			}
		})
	}
}

func TestBurstWebhookPatchesPods(t *testing.T) {
	policy := burstPolicy("first", "")
	c := clusterWith(t, interceptor.Funcs{}, &policy)
	handle := func(namespace string) admission.Response {
		return (&burstPods{policies: c}).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: namespace, Operation: admissionv1.Create,
			Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"},"spec":{"mood":"new","containers":[{"name":"a","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]}}`)},
		}})
	}
	got := handle("team")
	var paths []string
	for _, p := range got.Patches {
		paths = append(paths, p.Path)
	}
	slices.Sort(paths)
	if want := []string{"/spec/affinity", "/spec/containers/0/resources/limits", "/spec/tolerations"}; !got.Allowed || !slices.Equal(paths, want) {
		t.Errorf("allowed %t, patches %v, want %v", got.Allowed, paths, want)
	}
	if other := handle("other"); !other.Allowed || len(other.Patches) > 0 {
		t.Errorf("a pod of another namespace: %+v", other)
	}
}
