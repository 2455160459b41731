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
)

// Labels and names that Liqo v1.2 sets. They are spelled out here because only the liqo
// packages depend on Liqo.
const (
	nodeTypeLabel   = "liqo.io/type"
	virtualNode     = "virtual-node"
	shadowPodKind   = "ShadowPod"
	shadowPodGroup  = "offloading.liqo.io/"
	creatorLabel    = "liqo.io/creator-user"
	originNodeLabel = "offloading.liqo.io/nodename"
	// controlPlaneRole is a label of Kubernetes.
	controlPlaneRole = "node-role.kubernetes.io/control-plane"
)

// The creator of a placement's pods is the user of its ResourceSlice. Liqo names that user
// after the slice and a hash of the consumer's cluster ID.
var (
	placementUser = regexp.MustCompile(`^(res-[a-z0-9]{10}-[1-9][0-9]*)-[0-9a-f]{12}$`)
	placementName = regexp.MustCompile(`^res-[a-z0-9]{10}-[1-9][0-9]*$`)
)

// maxAmount bounds a single amount: 4 PiB, or as many units. No real pod or node is larger, and
// some thousand of them still add up within an int64.
const maxAmount int64 = 1 << 52

// nodeFacts is the part of a node that is kept.
type nodeFacts struct {
	capacity    quantity.Amounts
	allocatable quantity.Amounts
	ours        bool
	counts      bool
	// barred is true for a node that accepts neither ordinary pods nor those that tolerate the
	// offered taints. controlPlane is true for a node that is labelled as part of the control
	// plane.
	barred, controlPlane bool
	// taints are the offered ones, sorted; nil if the node has none of them.
	taints []brokerv1alpha1.Taint
	// labels are the published ones; nil if the node has none of them.
	labels map[string]string
	// kept are the labels that Lend asks for; nil if the node has none of them.
	kept map[string]string
}

func (f nodeFacts) equal(g nodeFacts) bool {
	return f.ours == g.ours && f.counts == g.counts && f.barred == g.barred && f.controlPlane == g.controlPlane && maps.Equal(f.labels, g.labels) && maps.Equal(f.kept, g.kept) && slices.Equal(f.taints, g.taints) &&
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
		controlPlane: controlPlane,
		taints:       taints,
		labels:       selectLabels(node.Labels, shown),
		kept:         selectLabels(node.Labels, lent.labels),
	}
}

// selectLabels returns the given labels of a node; nil if it has none of them.
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

// readTaints returns the taints of a node that are offered, and reports whether another one keeps
// ordinary pods off: barred for one that somebody set, troubled for one that Kubernetes sets while
// the node has a problem.
//
// It ignores the taint of a device that the node has, because pods that request devices tolerate
// the taints of those devices.
func readTaints(node *corev1.Node, offered []brokerv1alpha1.Taint) (taints []brokerv1alpha1.Taint, barred, troubled bool) {
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		device := node.Status.Allocatable[corev1.ResourceName(t.Key)]
		switch {
		case t.Effect == corev1.TaintEffectPreferNoSchedule, quantity.IsExtended(corev1.ResourceName(t.Key)) && !device.IsZero():
		case tolerated[t.Key]:
		case strings.HasPrefix(t.Key, conditionTaint):
			troubled = true
		default:
			is := brokerv1alpha1.Taint{Key: t.Key, Value: brokerv1alpha1.LabelValue(t.Value), Effect: string(t.Effect)}
			if at := slices.Index(offered, is); at >= 0 {
				taints = append(taints, offered[at]) // shares its strings
			} else {
				barred = true
			}
		}
	}
	slices.SortFunc(taints, compareTaints)
	return taints, barred, troubled
}

func compareTaints(a, b brokerv1alpha1.Taint) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
}

// conditionTaint is the prefix of the taints that Kubernetes derives from a node's state.
const conditionTaint = "node.kubernetes.io/"

// tolerated are the taints that pods with requests tolerate, and those of nodes that do not count
// anyway.
var tolerated = map[string]bool{
	corev1.TaintNodeMemoryPressure: true,
	corev1.TaintNodeNotReady:       true,
	corev1.TaintNodeUnreachable:    true,
	corev1.TaintNodeUnschedulable:  true,
}

// podKey is a pod's UID as bytes.
type podKey [16]byte

func keyOf(meta *metav1.ObjectMeta) podKey {
	if id, err := uuid.Parse(string(meta.UID)); err == nil {
		return podKey(id)
	}
	sum := sha256.Sum256([]byte(string(meta.UID) + "/" + meta.Namespace + "/" + meta.Name))
	return podKey(sum[:16])
}

// podFacts is the part of a pod that is kept.
type podFacts struct {
	// node is the node that the pod is bound to; empty if the pod takes no capacity.
	node string
	// placement is the one that the pod runs for; empty for a pod of this cluster's own.
	placement string
	request   request
	// waiting is set until the pod's node has accepted it.
	waiting waitingPod
}

// waitingPod is a pod that is bound to a node which has not accepted it. The zero value means
// none.
type waitingPod struct {
	// since is when the pod was bound to the node, in Unix seconds.
	since int64
	// name is namespace/name.
	name string
}

// request holds the requests of a pod. Most pods request only the three resources that have a
// field.
type request struct {
	milliCPU, memory, ephemeral int64
	others                      []other
}

type other struct {
	name   corev1.ResourceName
	amount int64
}

func (r *request) equal(s *request) bool {
	if r.milliCPU != s.milliCPU || r.memory != s.memory || r.ephemeral != s.ephemeral || len(r.others) != len(s.others) {
		return false
	}
	for i := range r.others {
		if r.others[i] != s.others[i] {
			return false
		}
	}
	return true
}

// addTo adds the request times the sign to sum, and counts the pod itself.
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

// limitAmounts limits every amount to most.
func (r *request) limitAmounts(most int64) {
	r.milliCPU, r.memory, r.ephemeral = min(r.milliCPU, most), min(r.memory, most), min(r.ephemeral, most)
	for i := range r.others {
		r.others[i].amount = min(r.others[i].amount, most)
	}
}

// Finished reports whether a pod has ended. It then takes no capacity, although it remains
// until it is deleted.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func factsOfPod(pod *corev1.Pod) podFacts {
	if pod.Spec.NodeName == "" || Finished(pod) {
		return podFacts{}
	}
	return podFacts{
		node: pod.Spec.NodeName, placement: placementOf(&pod.ObjectMeta), request: requestOf(pod), waiting: waitingOf(pod),
	}
}

// waitingOf returns a pod that its node has not accepted. Every kubelet sets a pod's host IP with
// the first status that it writes. Liqo's virtual kubelet writes that status once the pod exists
// at the provider; until then, and if the provider refuses the pod, it writes none, or one without
// a host IP while the namespace is not offloaded.
func waitingOf(pod *corev1.Pod) waitingPod {
	if pod.Status.HostIP != "" || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending {
		return waitingPod{}
	}
	since := pod.CreationTimestamp.Time
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			since = c.LastTransitionTime.Time
		}
	}
	return waitingPod{since: since.Unix(), name: pod.Namespace + "/" + pod.Name}
}

// requestOf applies Kubernetes' own rules: init containers and sidecars, overhead, pod-level
// resources, and resizes in flight.
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

// placementOf returns the placement that a pod runs for. Liqo's webhook sets the creator to the
// authenticated user, so a consumer cannot charge a pod to another placement. The name of the
// originating node comes from the consumer; it is trusted only if Liqo runs without that
// webhook.
func placementOf(meta *metav1.ObjectMeta) string {
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

// boundedAmounts converts quantities and omits invalid ones, so that one invalid resource does not
// hide the others.
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
