// Package drain empties the virtual node of a placement that has ended. It cordons the node,
// evicts the pods as far as disruption budgets allow, and after the deadline deletes the
// pods that are left. Package plan decides when each of these steps is due; a Drainer
// observes the pods and carries out the steps.
package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// attempt is the last refused attempt to evict or delete a pod.
type attempt struct {
	at      time.Time
	refusal string
}

// Drainer empties the virtual nodes of ended placements. It is not safe for concurrent use.
type Drainer struct {
	client client.Client
	// reader reads from the API server, not from a cache.
	reader client.Reader
	clock  clock.PassiveClock
	// timeout is how long pods are evicted. The pods that are left after that are deleted.
	timeout time.Duration
	// attempts holds the last refused attempt for each pod of a draining placement, by the placement's
	// name and the pod's UID. Their times determine which pods are tried next, and their reasons appear
	// in the placement's condition. They are kept in memory only.
	attempts map[string]map[types.UID]attempt
}

// New returns a Drainer that evicts the pods of a node for timeout, and then deletes the pods that
// are left.
func New(c client.Client, reader client.Reader, now clock.PassiveClock, timeout time.Duration) *Drainer {
	return &Drainer{client: c, reader: reader, clock: now, timeout: timeout, attempts: map[string]map[types.UID]attempt{}}
}

// Forget drops the recorded attempts for the pods of a placement.
func (d *Drainer) Forget(placement string) { delete(d.attempts, placement) }

// Target is a placement whose virtual node is being drained.
type Target struct {
	Placement string
	// Instruction records in its status when the drain began and its deadline.
	Instruction *agentv1alpha1.ReservationInstruction
	Node        *corev1.Node
}

// Observe returns the progress of the drain. Once the drain has begun and the node is cordoned, it
// lists the node's pods from the API server. The agent keeps no cache of pods, because the cache
// would hold every pod of the cluster.
func (d *Drainer) Observe(ctx context.Context, t Target, all []agentv1alpha1.ReservationInstruction, now time.Time) (plan.DrainView, error) {
	v := plan.DrainView{Now: now, SuccessorComes: hasSuccessor(t.Instruction, all)}
	begun := t.Instruction.Status.Drain
	if begun == nil || !IsCordoned(t.Node) {
		return v, nil
	}
	v.Begun, v.Deadline = begun.StartedAt.Time, begun.Deadline.Time
	var pods corev1.PodList
	if err := d.reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": t.Placement}); err != nil {
		return v, fmt.Errorf("pods on node %q: %w", t.Placement, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; mustLeave(pod) {
			v.Pods = append(v.Pods, podView(pod, d.attempts[t.Placement][pod.UID]))
		}
	}
	return v, nil
}

// CountPods returns how many pods on a node have not finished, and how many wait to be bound to it, according to
// the API server. It does not count the pods that a drain leaves alone.
func (d *Drainer) CountPods(ctx context.Context, node *corev1.Node) (int, error) {
	count := 0
	for _, bound := range []string{node.Name, ""} {
		var pods corev1.PodList
		if err := d.reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": bound}); err != nil {
			return 0, fmt.Errorf("pods on node %q: %w", node.Name, err)
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; mustLeave(pod) && !capacity.Finished(pod) && (bound != "" || waitsFor(pod, node)) {
				count++
			}
		}
	}
	return count, nil
}

// waitsFor reports whether a pod selects this node, by its name or by the labels of its reservation. The node
// must be open to the pod's namespace: other users must not be able to keep a reservation alive.
func waitsFor(pod *corev1.Pod, node *corev1.Node) bool {
	if node.Labels[agentv1alpha1.SharedLabel] != "true" && node.Labels[agentv1alpha1.NamespaceLabelPrefix+pod.Namespace] != "true" {
		return false
	}
	selects, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return err == nil && selects && slices.ContainsFunc(selectionsOf(&pod.Spec), func(e corev1.NodeSelectorRequirement) bool {
		return e.Operator == corev1.NodeSelectorOpIn && (e.Key == agentv1alpha1.RequestLabel || e.Key == agentv1alpha1.ReservationLabel || e.Key == corev1.LabelHostname)
	})
}

// selectionsOf returns what a pod's node selector and the terms of its required affinity demand of a node's labels.
func selectionsOf(spec *corev1.PodSpec) (out []corev1.NodeSelectorRequirement) {
	for key := range spec.NodeSelector {
		out = append(out, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn})
	}
	if a := spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			out = append(out, term.MatchExpressions...)
		}
	}
	return out
}

// mustLeave reports whether the drain must remove a pod from the node. Like kubectl drain it ignores
// pods of DaemonSets, which would be recreated, and mirror pods, which belong to the kubelet.
func mustLeave(pod *corev1.Pod) bool { return capacity.IsGuest(&pod.ObjectMeta) }

func podView(pod *corev1.Pod, last attempt) plan.PodView {
	v := plan.PodView{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Tried: last.at, Refusal: last.refusal}
	if pod.DeletionTimestamp != nil {
		v.GraceEnds = pod.DeletionTimestamp.Time
	}
	return v
}

// hasSuccessor reports whether a later placement of the reservation stands and has no Ready node yet.
func hasSuccessor(inst *agentv1alpha1.ReservationInstruction, all []agentv1alpha1.ReservationInstruction) bool {
	return slices.ContainsFunc(all, func(i agentv1alpha1.ReservationInstruction) bool {
		return i.Spec.ReservationName == inst.Spec.ReservationName && i.Spec.Placement > inst.Spec.Placement &&
			!i.Ended() && !meta.IsStatusConditionTrue(i.Status.Conditions, agentv1alpha1.ConditionNodeReady)
	})
}

// Apply carries out one drain action of a plan.
func (d *Drainer) Apply(ctx context.Context, t Target, a plan.Action) error {
	switch a.Do {
	case plan.BeginDrain:
		return d.setDeadline(ctx, t.Instruction)
	case plan.CordonNode:
		return d.cordonNode(ctx, t)
	case plan.EvictPods:
		return d.evictPods(ctx, t.Placement, a.Pods)
	}
	return d.deletePods(ctx, t.Placement, a.Pods)
}

// setDeadline writes the deadline into the instruction's status, so that a restarted agent keeps it.
func (d *Drainer) setDeadline(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) error {
	if inst.Status.Drain != nil {
		return nil
	}
	defer failpoint.Hit(failpoint.ConsumerDrainBegun)
	before := inst.DeepCopy()
	now := d.clock.Now()
	inst.Status.Drain = &agentv1alpha1.Drain{StartedAt: metav1.NewTime(now), Deadline: metav1.NewTime(now.Add(d.timeout))}
	return d.client.Status().Patch(ctx, inst, patch.IfUnchanged(before))
}

func endingTaint(reservation string) corev1.Taint {
	return corev1.Taint{Key: agentv1alpha1.EndingTaint, Value: reservation, Effect: corev1.TaintEffectNoSchedule}
}

// IsCordoned reports whether the agent has cordoned the node because its placement has ended.
func IsCordoned(node *corev1.Node) bool {
	return node.Spec.Unschedulable && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == agentv1alpha1.EndingTaint })
}

// cordonNode keeps new pods off the node. Besides marking it unschedulable, it adds a taint, because
// some pods tolerate the taint of an unschedulable node. The taint also shows that the node will not
// become schedulable again.
func (d *Drainer) cordonNode(ctx context.Context, t Target) error {
	defer failpoint.Hit(failpoint.ConsumerNodeCordoned)
	update := t.Node.DeepCopy()
	update.Spec.Unschedulable = true
	if !IsCordoned(update) {
		update.Spec.Taints = append(update.Spec.Taints, endingTaint(t.Instruction.Spec.ReservationName))
	}
	return client.IgnoreNotFound(d.client.Patch(ctx, update, patch.IfUnchanged(t.Node)))
}

func (d *Drainer) evictPods(ctx context.Context, placement string, pods []plan.PodView) error {
	defer failpoint.Hit(failpoint.ConsumerPodsEvicted)
	return d.tryEach(placement, pods, func(pod plan.PodView) error {
		return d.client.SubResource("eviction").Create(ctx, podOf(pod), &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Labels: map[string]string{agentv1alpha1.DrainLabel: "true"}},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
		})
	})
}

func (d *Drainer) deletePods(ctx context.Context, placement string, pods []plan.PodView) error {
	defer failpoint.Hit(failpoint.ConsumerPodsDeleted)
	return d.tryEach(placement, pods, func(pod plan.PodView) error {
		return d.client.Delete(ctx, podOf(pod), client.Preconditions{UID: &pod.UID})
	})
}

func podOf(pod plan.PodView) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}

// tryEach calls ask for each pod, to evict or delete it, and records the refusals. It continues
// after a refusal, and returns an error as soon as the API server is overloaded or does not answer.
func (d *Drainer) tryEach(placement string, pods []plan.PodView, ask func(plan.PodView) error) error {
	for _, pod := range pods {
		err := ask(pod)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// The pod is terminating or gone, or another pod now has its name.
		case !isRefusal(err):
			return fmt.Errorf("pod %q of namespace %q: %w", pod.Name, pod.Namespace, err)
		default:
			if d.attempts[placement] == nil {
				d.attempts[placement] = map[types.UID]attempt{}
			}
			d.attempts[placement][pod.UID] = attempt{at: d.clock.Now(), refusal: refusalOf(err)}
		}
	}
	return nil
}

// isRefusal reports whether the API server decided against the request, and was not just overloaded.
func isRefusal(err error) bool {
	no, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case !answered, apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsServiceUnavailable(err):
		return false
	case apierrors.IsTooManyRequests(err):
		return budgetOf(no) != ""
	}
	return true
}

func refusalOf(err error) string {
	if no, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return cmp.Or(budgetOf(no), err.Error())
	}
	return err.Error()
}

func budgetOf(no *apierrors.StatusError) string {
	if no.ErrStatus.Details == nil {
		return ""
	}
	for _, cause := range no.ErrStatus.Details.Causes {
		if cause.Type == policyv1.DisruptionBudgetCause {
			return strings.TrimSuffix(cause.Message, ".")
		}
	}
	return ""
}
