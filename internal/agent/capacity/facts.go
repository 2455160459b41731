package capacity

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Labels and names that Liqo v1.2 sets. They are repeated here because only the packages below
// liqo/ may import Liqo.
const (
	nodeTypeLabel   = "liqo.io/type"
	virtualNode     = "virtual-node"
	shadowPodKind   = "ShadowPod"
	shadowPodGroup  = "offloading.liqo.io/"
	creatorLabel    = "liqo.io/creator-user"
	originNodeLabel = "offloading.liqo.io/nodename"
	// controlPlaneRole is the label of control-plane nodes in Kubernetes.
	controlPlaneRole = "node-role.kubernetes.io/control-plane"
)

// Patterns to find the placement of a pod that Liqo creates for a consumer. Liqo labels such a pod
// with the user who created its ShadowPod. For a placement, this user is the identity that Liqo
// made for the placement's ResourceSlice. The user name consists of the slice's name and a hash of
// the consumer's cluster ID.
var (
	placementUser = regexp.MustCompile(`^(res-[a-z0-9]{10}-[1-9][0-9]*)-[0-9a-f]{12}$`)
	placementName = regexp.MustCompile(`^res-[a-z0-9]{10}-[1-9][0-9]*$`)
)

// maxAmount limits a single amount, for example to 4 PiB of memory. No real pod or node has more.
// The sum of two thousand such amounts still fits into an int64.
const maxAmount int64 = 1 << 52

// nodeFacts is what the package remembers of a node.
type nodeFacts struct {
	capacity    quantity.Amounts
	allocatable quantity.Amounts
	ours        bool
	counts      bool
	// barred is true if the node has a taint that is not offered, keeps ordinary pods off and was not
	// set by Kubernetes because of a problem, or if it is a control-plane node with an offered taint.
	// controlPlane is true if the node is labelled as part of the control plane.
	barred, controlPlane bool
	// repels is true if no pod of a consumer can run on the node, see repelsConsumers.
	repels bool
	// taints are the taints of the node that are offered to requests, sorted; nil if it has none.
	taints []brokerv1alpha1.Taint
	// labels are the labels of the node that the cluster publishes; nil if it has none of them.
	labels map[string]string
	// kept holds the labels whose keys were passed to Lend; nil if the node has none of them.
	kept map[string]string
	// group is 1 + the index of the node's group among those passed to Lend, 0 if it is in none.
	group int
}

func (f nodeFacts) equal(g nodeFacts) bool {
	return f.ours == g.ours && f.counts == g.counts && f.barred == g.barred && f.repels == g.repels && f.controlPlane == g.controlPlane && f.group == g.group && maps.Equal(f.labels, g.labels) && maps.Equal(f.kept, g.kept) && slices.Equal(f.taints, g.taints) &&
		f.capacity.Equal(g.capacity) && f.allocatable.Equal(g.allocatable)
}

func factsOfNode(node *corev1.Node, shown []string, lent *lendable) nodeFacts {
	ours := node.Labels[nodeTypeLabel] != virtualNode
	taints, barred, troubled := readTaints(node, lent.taints)
	_, controlPlane := node.Labels[controlPlaneRole]
	barred = barred || controlPlane && len(taints) > 0
	return nodeFacts{
		capacity:     boundedAmounts(node.Status.Capacity),
		allocatable:  boundedAmounts(node.Status.Allocatable),
		ours:         ours,
		counts:       ours && lent.nodes.Matches(labels.Set(node.Labels)) && !node.Spec.Unschedulable && isReady(node) && !barred && !troubled,
		barred:       barred,
		repels:       repelsConsumers(node, lent.taints),
		controlPlane: controlPlane,
		taints:       taints,
		labels:       selectLabels(node.Labels, shown),
		kept:         selectLabels(node.Labels, lent.labels),
		group:        lent.groupOf(node.Labels),
	}
}

func selectLabels(of map[string]string, keys []string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		value, ok := of[key]
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[strings.Clone(key)] = strings.Clone(value)
	}
	return out
}

func isReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// readTaints returns the offered taints of a node, and whether other taints keep ordinary pods off.
// troubled is true if Kubernetes set such a taint because the node has a problem, barred if anyone
// else set one.
//
// A taint named after a device of the node is offered to placements that are granted the device.
func readTaints(node *corev1.Node, offered []brokerv1alpha1.Taint) (taints []brokerv1alpha1.Taint, barred, troubled bool) {
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		device := node.Status.Allocatable[corev1.ResourceName(t.Key)]
		switch {
		case t.Effect == corev1.TaintEffectPreferNoSchedule, tolerated[t.Key]:
		case quantity.IsExtended(corev1.ResourceName(t.Key)) && !requirements.IsReservedTaint(t.Key) && !device.IsZero():
			taints = append(taints, brokerv1alpha1.Taint{Key: t.Key, Value: brokerv1alpha1.LabelValue(t.Value), Effect: string(t.Effect)})
		case strings.HasPrefix(t.Key, conditionTaint):
			troubled = true
		default:
			is := brokerv1alpha1.Taint{Key: t.Key, Value: brokerv1alpha1.LabelValue(t.Value), Effect: string(t.Effect)}
			if at := slices.Index(offered, is); at >= 0 {
				taints = append(taints, offered[at]) // use the equal element of offered, so that all nodes share its strings
			} else {
				barred = true
			}
		}
	}
	slices.SortFunc(taints, compareTaints)
	return taints, barred, troubled
}

// repelsConsumers reports whether a node has a taint that no pod of a consumer tolerates, because it
// is neither offered, nor reserved, nor named after a device.
func repelsConsumers(node *corev1.Node, offered []brokerv1alpha1.Taint) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !requirements.IsReservedTaint(t.Key) && !quantity.IsExtended(corev1.ResourceName(t.Key)) &&
			!slices.Contains(offered, brokerv1alpha1.Taint{Key: t.Key, Value: brokerv1alpha1.LabelValue(t.Value), Effect: string(t.Effect)})
	})
}

func compareTaints(a, b brokerv1alpha1.Taint) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
}

// conditionTaint is the prefix of the taints that Kubernetes sets according to a node's conditions.
const conditionTaint = "node.kubernetes.io/"

// tolerated lists taints that readTaints ignores. Pods with requests tolerate memory pressure by
// default. The other taints make no difference, because a node that has them is not Ready or not
// schedulable and therefore does not count.
var tolerated = map[string]bool{
	corev1.TaintNodeMemoryPressure: true,
	corev1.TaintNodeNotReady:       true,
	corev1.TaintNodeUnreachable:    true,
	corev1.TaintNodeUnschedulable:  true,
}

// podKey identifies a pod: its UID as bytes.
type podKey [16]byte

func keyOf(pod metav1.Object) podKey {
	if id, err := uuid.Parse(string(pod.GetUID())); err == nil {
		return podKey(id)
	}
	sum := sha256.Sum256([]byte(string(pod.GetUID()) + "/" + pod.GetNamespace() + "/" + pod.GetName()))
	return podKey(sum[:16])
}

// podFacts is what the package remembers of a pod.
type podFacts struct {
	// node is the node to which the pod is bound; empty if the pod takes no capacity.
	node string
	// placement is the placement that the pod runs for; empty for one of this cluster's own pods.
	placement string
	request   request
	// guest is false for a pod of a DaemonSet and for a mirror pod, which run on every node.
	guest bool
	// waiting describes the pod while it waits on its node; otherwise it is the zero value.
	waiting waitingPod
}

// waitingPod is a pod that is bound to a node that has not accepted it yet, or to a virtual node
// whose provider has no node for its copy. The zero value means no pod.
type waitingPod struct {
	// since is when the pod was bound to the node, in Unix seconds; with unplaced, when the
	// provider's scheduler found no node for its copy.
	since int64
	// unplaced is true when the copy exists and waits for a node.
	unplaced bool
	// name is the pod's namespace and name, separated by a slash.
	name string
}

// request holds the requests of a pod. The most common resources have fields of their own, which
// take less memory than a map.
type request struct {
	milliCPU, memory, ephemeral int64
	others                      []other
}

type other struct {
	name   corev1.ResourceName
	amount int64
}

func (r *request) equal(s *request) bool {
	return r.milliCPU == s.milliCPU && r.memory == s.memory && r.ephemeral == s.ephemeral && slices.Equal(r.others, s.others)
}

// addTo adds sign times the requests to sum. It counts the pod itself as 1 of the resource "pods".
func (r *request) addTo(sum quantity.Amounts, sign int64) {
	sum[corev1.ResourcePods] += sign
	sum[corev1.ResourceCPU] += sign * r.milliCPU
	sum[corev1.ResourceMemory] += sign * r.memory
	if r.ephemeral != 0 {
		sum[corev1.ResourceEphemeralStorage] += sign * r.ephemeral
	}
	for _, o := range r.others {
		sum[o.name] += sign * o.amount
	}
}

func (r *request) limitAmounts(most int64) {
	r.milliCPU, r.memory, r.ephemeral = min(r.milliCPU, most), min(r.memory, most), min(r.ephemeral, most)
	for i := range r.others {
		r.others[i].amount = min(r.others[i].amount, most)
	}
}

// Finished reports whether a pod has ended. A finished pod takes no capacity, although the object
// remains until it is deleted.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func factsOfPod(pod *corev1.Pod) podFacts {
	if pod.Spec.NodeName == "" || Finished(pod) {
		return podFacts{}
	}
	return podFacts{
		node: pod.Spec.NodeName, placement: PlacementOf(&pod.ObjectMeta), request: requestOf(pod), waiting: waitingOf(pod), guest: IsGuest(&pod.ObjectMeta),
	}
}

// isReserved reports whether a node is the virtual node of a reservation, which is named after the
// placement.
func isReserved(node string) bool {
	return strings.HasPrefix(node, "res-") && placementName.MatchString(node)
}

// IsGuest reports whether a pod belongs to a workload that uses its node. Pods of DaemonSets, which run
// on every node, and mirror pods, which belong to the kubelet, do not.
func IsGuest(pod *metav1.ObjectMeta) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !mirror && (owner == nil || owner.Kind != "DaemonSet")
}

// waitingOf returns the pod if its node has not accepted it yet, or if its copy at the provider has
// no node, otherwise the zero value. It recognizes an accepted pod by its host IP: a kubelet sets it
// with the first status that it writes, and Liqo's virtual kubelet sets it once the pod exists at
// the provider. Liqo then also copies the condition PodScheduled from there.
func waitingOf(pod *corev1.Pod) waitingPod {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending {
		return waitingPod{}
	}
	accepted := pod.Status.HostIP != ""
	w := waitingPod{since: pod.CreationTimestamp.Unix(), name: pod.Namespace + "/" + pod.Name}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodScheduled || c.LastTransitionTime.IsZero() {
			continue
		}
		w.unplaced = accepted && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		if w.unplaced || c.Status == corev1.ConditionTrue {
			w.since = c.LastTransitionTime.Unix()
		}
	}
	if accepted && !w.unplaced {
		return waitingPod{}
	}
	return w
}

// requestOf returns the requests of a pod by Kubernetes' own rules. They include init containers
// and sidecars, overhead, pod-level resources, and resizes in progress.
func requestOf(pod *corev1.Pod) request {
	amounts := boundedAmounts(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}))
	out := request{
		milliCPU:  amounts[corev1.ResourceCPU],
		memory:    amounts[corev1.ResourceMemory],
		ephemeral: amounts[corev1.ResourceEphemeralStorage],
	}
	delete(amounts, corev1.ResourceCPU)
	delete(amounts, corev1.ResourceMemory)
	delete(amounts, corev1.ResourceEphemeralStorage)
	delete(amounts, corev1.ResourcePods)
	for _, name := range amounts.Names() {
		if amounts[name] != 0 {
			out.others = append(out.others, other{name: name, amount: amounts[name]})
		}
	}
	return out
}

// PlacementOf returns the name of the placement that a pod runs for, or "". It reads the name from
// the label with the creator: Liqo's webhook sets that label to the authenticated user, so a
// consumer cannot charge a pod to another placement. The label is missing only if Liqo runs without
// this webhook. Then PlacementOf trusts the name of the originating node, which the consumer
// chooses.
func PlacementOf(meta *metav1.ObjectMeta) string {
	owner := metav1.GetControllerOfNoCopy(meta)
	if owner == nil || owner.Kind != shadowPodKind || !strings.HasPrefix(owner.APIVersion, shadowPodGroup) {
		return ""
	}
	if creator, ok := meta.Labels[creatorLabel]; ok {
		if match := placementUser.FindStringSubmatch(creator); match != nil {
			return strings.Clone(match[1])
		}
		return ""
	}
	if name := meta.Labels[originNodeLabel]; placementName.MatchString(name) {
		return strings.Clone(name)
	}
	return ""
}

// boundedAmounts converts quantities to amounts of at most maxAmount. It skips invalid quantities
// and keeps the others.
func boundedAmounts(list corev1.ResourceList) quantity.Amounts {
	amounts, err := quantity.FromResourceList(list)
	if err != nil {
		amounts = make(quantity.Amounts, len(list))
		for name, q := range list {
			if one, err := quantity.FromResourceList(corev1.ResourceList{name: q}); err == nil {
				amounts[name] = one[name]
			}
		}
	}
	for name, amount := range amounts {
		amounts[name] = min(amount, maxAmount)
	}
	return amounts
}

// Use is the capacity that a pod takes from its placement, for which Liqo runs it.
type Use struct {
	Placement string
	// Request is the pod's request. It includes the pod itself, as 1 of the resource "pods".
	Request quantity.Amounts
	// Over is true if the pod has finished.
	Over bool
}

// UseOf returns what a pod takes from its placement. ok is false if the pod does not run for a
// placement.
func UseOf(pod *corev1.Pod) (u Use, ok bool) {
	if u.Placement = PlacementOf(&pod.ObjectMeta); u.Placement == "" {
		return Use{}, false
	}
	u.Request = quantity.Amounts{}
	request := requestOf(pod)
	request.addTo(u.Request, +1)
	u.Over = Finished(pod)
	return u, true
}
