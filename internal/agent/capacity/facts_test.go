package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// everything lends all nodes.
var everything = &lendable{nodes: labels.Everything()}

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func container(name string, requests corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests}}
}

func sidecar(name string, requests corev1.ResourceList) corev1.Container {
	c := container(name, requests)
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func TestRequestsFollowTheRulesOfKubernetes(t *testing.T) {
	const mi = 1 << 20
	cases := map[string]struct {
		spec   corev1.PodSpec
		status corev1.PodStatus
		want   quantity.Amounts
	}{
		"a pod without requests takes a place": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("a", nil)}},
			want: quantity.Amounts{"pods": 1},
		},
		"containers add up": {
			spec: corev1.PodSpec{Containers: []corev1.Container{
				container("a", list("cpu", "250m", "memory", "64Mi")),
				container("b", list("cpu", "1", "memory", "64Mi", "nvidia.com/gpu", "1", "ephemeral-storage", "10Mi")),
			}},
			want: quantity.Amounts{"pods": 1, "cpu": 1250, "memory": 128 * mi, "nvidia.com/gpu": 1, "ephemeral-storage": 10 * mi},
		},
		"init containers run one after the other, so the largest counts": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{container("i", list("cpu", "2")), container("j", list("cpu", "1"))},
				Containers:     []corev1.Container{container("a", list("cpu", "500m", "memory", "64Mi"))},
			},
			want: quantity.Amounts{"pods": 1, "cpu": 2000, "memory": 64 * mi},
		},
		"a sidecar runs beside the containers and beside later init containers": {
			spec: corev1.PodSpec{
				InitContainers: []corev1.Container{sidecar("s", list("cpu", "300m")), container("i", list("cpu", "1"))},
				Containers:     []corev1.Container{container("a", list("cpu", "500m"))},
			},
			want: quantity.Amounts{"pods": 1, "cpu": 1300},
		},
		"overhead of the runtime is added": {
			spec: corev1.PodSpec{
				Overhead:   list("cpu", "100m", "memory", "16Mi"),
				Containers: []corev1.Container{container("a", list("cpu", "500m"))},
			},
			want: quantity.Amounts{"pods": 1, "cpu": 600, "memory": 16 * mi},
		},
		"amounts for the pod as a whole come before those of its containers": {
			spec: corev1.PodSpec{
				Resources:  &corev1.ResourceRequirements{Requests: list("cpu", "3")},
				Containers: []corev1.Container{container("a", list("cpu", "500m", "memory", "64Mi"))},
			},
			want: quantity.Amounts{"pods": 1, "cpu": 3000, "memory": 64 * mi},
		},
		"a shrinking container counts in full until it has shrunk": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("a", list("cpu", "500m"))}},
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "a", AllocatedResources: list("cpu", "2"), Resources: &corev1.ResourceRequirements{Requests: list("cpu", "2")},
			}}},
			want: quantity.Amounts{"pods": 1, "cpu": 2000},
		},
		"a growing container counts with what it wants": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("a", list("cpu", "2"))}},
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "a", AllocatedResources: list("cpu", "1"), Resources: &corev1.ResourceRequirements{Requests: list("cpu", "1")},
			}}},
			want: quantity.Amounts{"pods": 1, "cpu": 2000},
		},
		"an absurd amount is cut and cannot overflow a sum": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("a", list("memory", "3Ei"))}},
			want: quantity.Amounts{"pods": 1, "memory": maxAmount},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.spec.NodeName = "n1"
			facts := factsOfPod(&corev1.Pod{Spec: tc.spec, Status: tc.status})
			got := quantity.Amounts{}
			facts.request.addTo(got, +1)
			if !got.Equal(tc.want) {
				t.Errorf("requests %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWhichPodsTakeCapacity(t *testing.T) {
	cases := map[string]struct {
		node  string
		phase corev1.PodPhase
		want  string
	}{
		"one that is not bound takes none":    {phase: corev1.PodPending},
		"one that is bound does":              {node: "n1", phase: corev1.PodPending, want: "n1"},
		"one that runs does":                  {node: "n1", phase: corev1.PodRunning, want: "n1"},
		"one of unknown phase still does":     {node: "n1", phase: corev1.PodUnknown, want: "n1"},
		"one that has finished takes none":    {node: "n1", phase: corev1.PodSucceeded},
		"one that has failed takes none":      {node: "n1", phase: corev1.PodFailed},
		"one whose phase is not written does": {node: "n1", want: "n1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := factsOfPod(&corev1.Pod{Spec: corev1.PodSpec{NodeName: tc.node}, Status: corev1.PodStatus{Phase: tc.phase}})
			if got.node != tc.want {
				t.Errorf("charged to node %q, want %q", got.node, tc.want)
			}
		})
	}
}

func TestPlacementOf(t *testing.T) {
	yes := true
	shadow := []metav1.OwnerReference{{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "p", Controller: &yes}}
	const slice, user = "res-abcdefghij-2", "res-abcdefghij-2-a8a4c692b93b"
	cases := map[string]struct {
		owners []metav1.OwnerReference
		labels map[string]string
		want   string
	}{
		"a pod made for a slice of ours is used by it": {
			owners: shadow, labels: map[string]string{creatorLabel: user, originNodeLabel: slice}, want: slice,
		},
		"who created it counts, not where it says it is from": {
			owners: shadow, labels: map[string]string{creatorLabel: user, originNodeLabel: "res-zzzzzzzzzz-1"}, want: slice,
		},
		"one of a peering made by hand is the cluster's own": {
			owners: shadow, labels: map[string]string{creatorLabel: "gpu-slice-a8a4c692b93b", originNodeLabel: slice},
		},
		"without Liqo's webhook the origin node is all there is": {
			owners: shadow, labels: map[string]string{originNodeLabel: slice}, want: slice,
		},
		"a node that is not a placement is not one": {owners: shadow, labels: map[string]string{originNodeLabel: "worker-1"}},
		"labels without a ShadowPod mean nothing":   {labels: map[string]string{creatorLabel: user, originNodeLabel: slice}},
		"an owner of another group means nothing": {
			owners: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "ShadowPod", Controller: &yes}},
			labels: map[string]string{creatorLabel: user},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := PlacementOf(&metav1.ObjectMeta{OwnerReferences: tc.owners, Labels: tc.labels}); got != tc.want {
				t.Errorf("placement %q, want %q", got, tc.want)
			}
		})
	}
}

func readyNode(edit func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Capacity: list("cpu", "4"), Allocatable: list("cpu", "3"),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	edit(n)
	return n
}

// tainted returns an edit that taints a node.
func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}} }
}

// Kubernetes and device plugins let pods that request a device tolerate the taint named after it. Other pods do not run
// on such a node.
func TestTaintOfDevicesIsOffered(t *testing.T) {
	n := readyNode(tainted("nvidia.com/gpu", corev1.TaintEffectNoSchedule))
	n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("2")
	f := factsOfNode(n, nil, everything)
	want := []brokerv1alpha1.Taint{{Key: "nvidia.com/gpu", Effect: "NoSchedule"}}
	if diff := cmp.Diff(want, f.taints); diff != "" || !f.counts || f.barred {
		t.Errorf("counts %t, barred %t, taints (-want +got):\n%s", f.counts, f.barred, diff)
	}
}

func TestWhichNodesCount(t *testing.T) {
	cases := map[string]struct {
		edit                         func(*corev1.Node)
		ours, counts, barred, repels bool
	}{
		"a ready node counts": {edit: func(*corev1.Node) {}, ours: true, counts: true},
		"one that is not ready is ours but does not count": {
			edit: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, ours: true,
		},
		"one that nobody hears of neither": {
			edit: func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, ours: true,
		},
		"one without conditions neither":        {edit: func(n *corev1.Node) { n.Status.Conditions = nil }, ours: true},
		"one that is cordoned neither":          {edit: func(n *corev1.Node) { n.Spec.Unschedulable = true }, ours: true},
		"a node of another cluster is not ours": {edit: func(n *corev1.Node) { n.Labels[nodeTypeLabel] = virtualNode }},
		"a node kept for the control plane does not count": {
			edit: func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
			}, ours: true, barred: true,
		},
		"one kept for a team does not count":    {edit: tainted("dedicated", corev1.TaintEffectNoSchedule), ours: true, barred: true, repels: true},
		"one that evicts ordinary pods neither": {edit: tainted("maintenance", corev1.TaintEffectNoExecute), ours: true, barred: true, repels: true},
		"one that is only avoided counts":       {edit: tainted("spot", corev1.TaintEffectPreferNoSchedule), ours: true, counts: true},
		"one that an autoscaler is about to remove does not count": {
			edit: tainted("ToBeDeletedByClusterAutoscaler", corev1.TaintEffectNoSchedule), ours: true, barred: true,
		},
		"one with a full disk does not count, and is lent again later": {edit: tainted("node.kubernetes.io/disk-pressure", corev1.TaintEffectNoSchedule), ours: true},
		"one short of memory counts, as pods with requests tolerate that": {
			edit: tainted("node.kubernetes.io/memory-pressure", corev1.TaintEffectNoSchedule), ours: true, counts: true,
		},
		"the taint of a device that the node lacks matters": {edit: tainted("nvidia.com/gpu", corev1.TaintEffectNoSchedule), ours: true, barred: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			want := nodeFacts{capacity: quantity.Amounts{"cpu": 4000}, allocatable: quantity.Amounts{"cpu": 3000}, ours: tc.ours, counts: tc.counts, barred: tc.barred, repels: tc.repels}
			if diff := cmp.Diff(want, factsOfNode(readyNode(tc.edit), nil, everything), cmp.AllowUnexported(nodeFacts{})); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodesWithOfferedTaintsCount(t *testing.T) {
	gpu := brokerv1alpha1.Taint{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}
	spot := brokerv1alpha1.Taint{Key: "spot", Effect: "NoExecute"}
	lent := &lendable{nodes: labels.Everything(), taints: []brokerv1alpha1.Taint{spot, gpu}}
	for name, tc := range map[string]struct {
		taints         []corev1.Taint
		plane          bool
		want           []brokerv1alpha1.Taint
		counts, barred bool
	}{
		"without taints":         {counts: true},
		"with an offered taint":  {taints: []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}}, want: []brokerv1alpha1.Taint{gpu}, counts: true},
		"with two offered ones":  {taints: []corev1.Taint{{Key: "spot", Effect: "NoExecute"}, {Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}}, want: []brokerv1alpha1.Taint{gpu, spot}, counts: true},
		"with one not offered":   {taints: []corev1.Taint{{Key: "spot", Effect: "NoExecute"}, {Key: "payroll", Effect: "NoSchedule"}}, want: []brokerv1alpha1.Taint{spot}, barred: true},
		"with another value":     {taints: []corev1.Taint{{Key: "dedicated", Value: "web", Effect: "NoSchedule"}}, barred: true},
		"with another effect":    {taints: []corev1.Taint{{Key: "spot", Effect: "NoSchedule"}}, barred: true},
		"with a full disk too":   {taints: []corev1.Taint{{Key: "spot", Effect: "NoExecute"}, {Key: "node.kubernetes.io/disk-pressure", Effect: "NoSchedule"}}, want: []brokerv1alpha1.Taint{spot}},
		"of the control plane":   {taints: []corev1.Taint{{Key: "spot", Effect: "NoExecute"}}, plane: true, want: []brokerv1alpha1.Taint{spot}, barred: true},
		"only avoided and noted": {taints: []corev1.Taint{{Key: "spot", Effect: "PreferNoSchedule"}}, counts: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := readyNode(func(n *corev1.Node) {
				n.Spec.Taints = tc.taints
				if tc.plane {
					n.Labels[controlPlaneRole] = ""
				}
			})
			got := factsOfNode(n, nil, lent)
			if diff := cmp.Diff(tc.want, got.taints); diff != "" || got.counts != tc.counts || got.barred != tc.barred {
				t.Errorf("counts %t, barred %t, taints (-want +got):\n%s", got.counts, got.barred, diff)
			}
		})
	}
}

func TestShapesKeepTaintedNodesApart(t *testing.T) {
	spot := []brokerv1alpha1.Taint{{Key: "spot", Effect: "NoExecute"}}
	a := newAccounts()
	for name, taints := range map[string][]brokerv1alpha1.Taint{"a": nil, "b": spot, "c": spot} {
		a.setNode(name, nodeFacts{allocatable: quantity.Amounts{"cpu": 4000}, ours: true, counts: true, taints: taints})
	}
	counts := map[bool]int64{}
	for _, s := range a.newSnapshot().NodeShapes {
		counts[len(s.Taints) > 0] += s.Count
	}
	if diff := cmp.Diff(map[bool]int64{false: 1, true: 2}, counts); diff != "" {
		t.Errorf("nodes by whether they are tainted (-want +got):\n%s", diff)
	}
	merged := mergeTail([]quantity.NodeShape{{Count: 1, Free: quantity.Amounts{"cpu": 4}}, {Count: 1, Free: quantity.Amounts{"cpu": 3}}, {Count: 2, Free: quantity.Amounts{"cpu": 2}, Taints: spot}}, 2)
	if diff := cmp.Diff(spot, merged[1].Taints); diff != "" || merged[1].Count != 3 {
		t.Errorf("taints of %d merged nodes (-want +got):\n%s", merged[1].Count, diff)
	}
}

func TestInvalidResourceDoesNotHideOthers(t *testing.T) {
	got := boundedAmounts(list("cpu", "2", "example.com/half", "500m"))
	if !got.Equal(quantity.Amounts{"cpu": 2000}) {
		t.Errorf("got %v", got)
	}
}
