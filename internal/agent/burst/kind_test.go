package burst

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// prepared is a pod as the agent's webhook leaves it.
const prepared = `
metadata: {namespace: ml, name: a, labels: {app: batch}}
spec:
  containers: [{name: a, resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}}]
  tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists, effect: NoExecute}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - {key: broker.fluidos.eu/reservation, operator: DoesNotExist}
          - {key: liqo.io/type, operator: NotIn, values: [virtual-node]}
        - matchExpressions:
          - {key: broker.fluidos.eu/burst, operator: In, values: [default]}
          - {key: namespace.broker.fluidos.eu/ml, operator: Exists}
`

func podFrom(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	runtest.Check(t, yaml.Unmarshal([]byte(text), pod))
	return pod
}

// edited returns the prepared pod with some fields of its spec replaced.
func edited(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	var pod struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	fields := map[string]any{}
	runtest.Check(t, errors.Join(yaml.Unmarshal([]byte(prepared), &pod), yaml.Unmarshal([]byte(spec), &fields)))
	maps.Copy(pod.Spec, fields)
	text, err := json.Marshal(pod)
	runtest.Check(t, err)
	return podFrom(t, string(text))
}

func TestWhichPodsCanUseVirtualNodes(t *testing.T) {
	owner := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = podFrom(t, `{metadata: {ownerReferences: [{apiVersion: apps/v1, kind: `+kind+`, name: a, uid: u, controller: true}]}}`).OwnerReferences
		}
	}
	container := func(text string) string { return `{containers: [` + text + `]}` }
	const equal = `resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}`
	for name, tc := range map[string]struct {
		spec   string
		edit   func(*corev1.Pod)
		want   Skip
		places Places
	}{
		"a prepared pod":                   {},
		"a pod of a Job":                   {edit: owner("Job")},
		"a pod of a DaemonSet":             {edit: owner("DaemonSet"), want: SkipDaemonSet},
		"the network of the node":          {spec: `{hostNetwork: true}`, want: SkipHostAccess},
		"the processes of the node":        {spec: `{hostPID: true}`, want: SkipHostAccess},
		"a file of the node":               {spec: `{volumes: [{name: a, hostPath: {path: /tmp}}]}`, want: SkipHostAccess},
		"a port of the node":               {spec: container(`{name: a, ports: [{containerPort: 80, hostPort: 80}], ` + equal + `}`), want: SkipHostAccess},
		"a privileged container":           {spec: container(`{name: a, securityContext: {privileged: true}, ` + equal + `}`), want: SkipHostAccess},
		"a claim":                          {spec: `{volumes: [{name: a, persistentVolumeClaim: {claimName: a}}]}`, want: SkipVolume},
		"an ephemeral claim":               {spec: `{volumes: [{name: a, ephemeral: {}}]}`, want: SkipVolume},
		"a volume of NFS":                  {spec: `{volumes: [{name: a, nfs: {server: a, path: /}}]}`, want: SkipVolume},
		"volumes that are sent along":      {spec: `{volumes: [{name: a, emptyDir: {}}, {name: b, configMap: {name: b}}, {name: c, secret: {secretName: c}}, {name: d, projected: {}}]}`},
		"a RuntimeClass":                   {spec: `{runtimeClassName: gvisor}`, want: SkipRuntimeClass},
		"Liqo's RuntimeClass":              {spec: `{runtimeClassName: liqo}`},
		"a resource claim":                 {spec: `{resourceClaims: [{name: a}]}`, want: SkipResourceClaim},
		"a container without requests":     {spec: container(`{name: a}`), want: SkipNoRequests},
		"a sidecar without memory":         {spec: `{initContainers: [{name: b, restartPolicy: Always, resources: {requests: {cpu: 1m}}}]}`, want: SkipNoRequests},
		"limits above requests":            {spec: container(`{name: a, resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "2", memory: 1Gi}}}`), want: SkipLimits},
		"no limits":                        {spec: container(`{name: a, resources: {requests: {cpu: "1", memory: 1Gi}}}`), want: SkipLimits},
		"too many resources":               {spec: container(`{name: a, resources: {requests: {cpu: "1", memory: 1Gi, a/1: 1, a/2: 1, a/3: 1, a/4: 1, a/5: 1, a/6: 1, a/7: 1, a/8: 1}, limits: {cpu: "1", memory: 1Gi}}}`), want: SkipResources},
		"no toleration":                    {edit: func(p *corev1.Pod) { p.Spec.Tolerations = nil }, want: SkipNotPrepared},
		"a toleration for a while":         {spec: `{tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]}`, want: SkipNotPrepared},
		"nothing prepared, and a selector": {spec: `{nodeSelector: {disk: ssd}}`, edit: func(p *corev1.Pod) { p.Spec.Tolerations, p.Spec.Affinity = nil, nil }, want: SkipNodeSelector},
		"a label of local nodes":           {spec: `{nodeSelector: {disk: ssd}}`, want: SkipNodeSelector},
		"Linux":                            {spec: `{nodeSelector: {kubernetes.io/os: linux, kubernetes.io/arch: amd64}}`},
		"Windows":                          {spec: `{nodeSelector: {kubernetes.io/os: windows}}`, want: SkipNodeSelector},
		"a node by name":                   {spec: `{nodeSelector: {kubernetes.io/hostname: n1}}`, want: SkipNodeSelector},
		"a request":                        {spec: `{nodeSelector: {broker.fluidos.eu/request: mine}}`, want: SkipNodeSelector},
		"another policy":                   {spec: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: broker.fluidos.eu/burst, operator: In, values: [other]}]}]}}}}`, want: SkipNodeSelector},
		"a region":                         {spec: `{nodeSelector: {topology.kubernetes.io/region: eu-south}}`, places: Places{Regions: []string{"eu-south"}}},
		"a cluster":                        {spec: `{nodeSelector: {liqo.io/remote-cluster-id: paris}}`, places: Places{Clusters: []string{"paris"}}},
		"regions and zones of one term, the first that can be met": {
			spec: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}, {matchFields: [{key: metadata.name, operator: In, values: [a]}]}, {}, {matchExpressions: [
				{key: topology.kubernetes.io/region, operator: In, values: [b, a]}, {key: topology.kubernetes.io/region, operator: In, values: [a, c]},
				{key: topology.kubernetes.io/zone, operator: In, values: [z]}, {key: liqo.io/remote-cluster-id, operator: NotIn, values: [oslo]},
				{key: spot, operator: DoesNotExist}, {key: liqo.io/type, operator: Exists}]}]}}}}`,
			places: Places{Regions: []string{"a"}, Zones: []string{"z"}, Excluded: []string{"oslo"}},
		},
		"regions that exclude each other": {
			spec: `{nodeSelector: {topology.kubernetes.io/region: a}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/region, operator: In, values: [b]}]}]}}}}`,
			want: SkipNodeSelector,
		},
		"a region that is excluded": {
			spec: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/region, operator: NotIn, values: [b]}]}]}}}}`,
			want: SkipNodeSelector,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.spec == "" {
				tc.spec = "{}"
			}
			pod := edited(t, tc.spec)
			if tc.edit != nil {
				tc.edit(pod)
			}
			got := KindOf(pod, []Selection{{Namespace: "ml", Name: "default"}})
			want := &Kind{Namespace: "ml", Policy: "default", Skip: tc.want, Places: tc.places}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("kind (-want +got):\n%s", diff)
			}
			if tc.want != "" && tc.want.Message() == "" {
				t.Errorf("%s is not explained", tc.want)
			}
		})
	}
}

func TestPodBelongsToFirstPolicyWhoseNodesItCanUse(t *testing.T) {
	of := func(app string) *agentv1alpha1.PodSelector {
		return &agentv1alpha1.PodSelector{MatchLabels: map[string]brokerv1alpha1.LabelValue{"app": brokerv1alpha1.LabelValue(app)}}
	}
	pod := podFrom(t, prepared) // for policy default
	for name, tc := range map[string]struct {
		policies []Selection
		want     *Kind
	}{
		"none":                     {nil, nil},
		"one that selects others":  {[]Selection{{"ml", "default", of("web")}}, nil},
		"one of another namespace": {[]Selection{{"other", "default", nil}}, nil},
		"one that selects it":      {[]Selection{{"ml", "default", of("batch")}}, &Kind{Namespace: "ml", Policy: "default"}},
		"a later one":              {[]Selection{{"ml", "alpha", nil}, {"ml", "default", nil}}, &Kind{Namespace: "ml", Policy: "default"}},
		"none whose nodes it can use": {
			[]Selection{{"ml", "alpha", nil}, {"ml", "beta", nil}}, &Kind{Namespace: "ml", Policy: "alpha", Skip: SkipNodeSelector},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, KindOf(pod, tc.policies)); diff != "" {
				t.Errorf("kind (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitingPodsAreGroupedBySizeAndPlaces(t *testing.T) {
	limit := quantity.Amounts{corev1.ResourceCPU: 4000}
	large := quantity.Amounts{corev1.ResourceCPU: 5000, corev1.ResourcePods: 1}
	south, north := Kind{Places: Places{Regions: []string{"south"}}}, Kind{Places: Places{Regions: []string{"north"}}}
	template := &brokerv1alpha1.Constraints{Regions: []string{"south", "west"}, ExcludeClusters: []string{"oslo"}}
	got := GroupPods([]Waiting{
		{Shape: small, Pods: 3, Oldest: noon},
		{Shape: small, Pods: 2, Oldest: noon.Add(-1)},
		{Kind: south, Shape: small, Pods: 5, Oldest: noon},
		{Kind: north, Shape: small, Pods: 7, Oldest: noon},
		{Shape: large, Pods: 11, Oldest: noon},
		{Kind: Kind{Skip: SkipVolume}, Shape: small, Pods: 13, Examples: []Pod{{"b", "2"}}},
		{Kind: Kind{Skip: SkipVolume}, Shape: large, Pods: 17, Examples: []Pod{{"a", "1"}}},
	}, "seed", template, limit)
	pods := map[string]int64{}
	for _, g := range got.Groups {
		pods[strings.Join(got.Wants[g.ID].Constraints.Regions, " ")] = g.Pods
		if want := noon.Add(-1); len(got.Wants[g.ID].Constraints.Regions) == 2 && !g.Oldest.Equal(want) {
			t.Errorf("oldest %v, want %v", g.Oldest, want)
		}
	}
	if diff := cmp.Diff(map[string]int64{"south west": 5, "south": 5}, pods); diff != "" {
		t.Errorf("groups by region (-want +got):\n%s", diff)
	}
	want := []Skipped{
		{SkipTooLarge, 11, nil},
		{SkipVolume, 30, []Pod{{"a", "1"}, {"b", "2"}}},
		{SkipPlaces, 7, nil},
	}
	if diff := cmp.Diff(want, got.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if open := GroupPods([]Waiting{{Kind: south, Shape: small, Pods: 1, Oldest: noon}}, "seed", &brokerv1alpha1.Constraints{Regions: []string{}}, limit); len(open.Groups) != 1 {
		t.Errorf("skipped %+v by an empty list", open.Skipped)
	}
	avoids := Kind{Places: Places{Excluded: []string{"oslo"}}}
	if shut := GroupPods([]Waiting{{Kind: avoids, Shape: small, Pods: 1, Oldest: noon}}, "seed", &brokerv1alpha1.Constraints{IncludeClusters: []string{"oslo"}}, limit); len(shut.Groups) != 0 {
		t.Errorf("pods that exclude the only cluster of the template: %+v", shut.Groups)
	}
	again := GroupPods([]Waiting{{Shape: small, Pods: 1, Oldest: noon}}, "another seed", template, limit)
	for _, g := range got.Groups {
		if g.ID == again.Groups[0].ID {
			t.Error("another template has the same group")
		}
	}
}

func TestGroupIsReadFromTheNameOfARequest(t *testing.T) {
	for name, want := range map[string]string{"p-aaaaaaaa-1": groupA, "p-aaaaaaaa-12": groupA, "p-aaaaaaaa": "", "q-aaaaaaaa-1": "", "p-a-1": "", "p": ""} {
		if got := GroupOf("p", name); got != want {
			t.Errorf("group of %q is %q, want %q", name, got, want)
		}
	}
}

func FuzzKindOf(f *testing.F) {
	f.Add("topology.kubernetes.io/region", "In", "a", "disk")
	f.Add("liqo.io/remote-cluster-id", "NotIn", "a", "")
	f.Add("broker.fluidos.eu/burst", "Gt", "1", "kubernetes.io/os")
	f.Fuzz(func(t *testing.T, key, operator, value, selector string) {
		pod := podFrom(t, prepared)
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOperator(operator), Values: []string{value}}}},
		}
		pod.Spec.NodeSelector = map[string]string{selector: value}
		k := KindOf(pod, []Selection{{Namespace: "ml", Name: "default"}})
		if k == nil || k.Skip != "" && k.Skip != SkipNodeSelector {
			t.Fatalf("kind %+v", k)
		}
		if c, ok := k.Places.Constrain(nil); k.Skip == "" && !ok {
			t.Fatalf("places %+v exclude everything: %+v", k.Places, c)
		}
	})
}
