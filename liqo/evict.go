package liqo

import (
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// attempt is the last one at having a pod leave that could not.
type attempt struct {
	at      time.Time
	refusal string
}

// attempts at the pods of each placement that is drained. They order who is asked next
// and tell people what holds a pod: a process that starts anew asks anew.
type attempts map[string]map[types.UID]attempt

func (a attempts) note(placement string, pod types.UID, last attempt) {
	if a[placement] == nil {
		a[placement] = map[types.UID]attempt{}
	}
	a[placement][pod] = last
}

func (a attempts) forget(placement string) { delete(a, placement) }

// observeDrain lists the pods on a node that was cordoned. They are read past the cache,
// which would hold every pod of the cluster for them.
func (p *Peering) observeDrain(ctx context.Context, s *consumerScene) error {
	if !s.Release || !s.Slice.usable() || !s.Slice.Ours || !s.Node.Exists {
		return nil
	}
	s.Drain.Now = s.now
	s.Drain.SuccessorComes = s.successorComes()
	begun := s.inst.Status.Drain
	if begun == nil || !s.Node.Cordoned {
		return nil
	}
	s.Drain.Begun, s.Drain.Deadline = begun.StartedAt.Time, begun.Deadline.Time
	var pods corev1.PodList
	if err := p.opts.Reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": s.Name}); err != nil {
		return fmt.Errorf("pods on node %q: %w", s.Name, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; hasToLeave(pod) {
			s.Drain.Pods = append(s.Drain.Pods, podView(pod, p.drains[s.Name][pod.UID]))
		}
	}
	return nil
}

// hasToLeave leaves out what kubectl drain does: a DaemonSet would put its pod back, and
// mirror pods are a kubelet's own.
func hasToLeave(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return !mirror && (owner == nil || owner.Kind != "DaemonSet")
}

func podView(pod *corev1.Pod, last attempt) PodView {
	v := PodView{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Tried: last.at, Refusal: last.refusal}
	if pod.DeletionTimestamp != nil {
		v.GraceEnds = pod.DeletionTimestamp.Time
	}
	return v
}

// successorComes looks for a placement of the same reservation that is to take over.
func (s *consumerScene) successorComes() bool {
	return slices.ContainsFunc(s.all, func(i agentv1alpha1.ReservationInstruction) bool {
		return i.Spec.ReservationName == s.inst.Spec.ReservationName && i.Spec.Placement > s.inst.Spec.Placement &&
			!i.Ended() && !meta.IsStatusConditionTrue(i.Status.Conditions, agentv1alpha1.ConditionNodeReady)
	})
}

// drain carries out what planDrain calls for.
func (p *Peering) drain(ctx context.Context, s *consumerScene, a Action) error {
	switch a.Do {
	case BeginDrain:
		return p.beginDrain(ctx, s)
	case CordonNode:
		return p.cordonNode(ctx, s)
	case EvictPods:
		return p.evictPods(ctx, s, a.Pods)
	}
	return p.removePods(ctx, s, a.Pods)
}

// beginDrain writes down until when pods are evicted, so that a process that starts anew
// knows. One that knows it already is not given more time.
func (p *Peering) beginDrain(ctx context.Context, s *consumerScene) error {
	if s.inst.Status.Drain != nil {
		return nil
	}
	defer failpoint.Hit(failpoint.ConsumerDrainBegun)
	before := s.inst.DeepCopy()
	now := p.opts.Clock.Now()
	s.inst.Status.Drain = &agentv1alpha1.Drain{StartedAt: metav1.NewTime(now), Deadline: metav1.NewTime(now.Add(p.opts.DrainTimeout))}
	return p.opts.Client.Status().Patch(ctx, s.inst, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func endingTaint(reservation string) corev1.Taint {
	return corev1.Taint{Key: agentv1alpha1.EndingTaint, Value: reservation, Effect: corev1.TaintEffectNoSchedule}
}

func isCordoned(node *corev1.Node) bool {
	return node.Spec.Unschedulable && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == agentv1alpha1.EndingTaint })
}

// cordonNode keeps new pods off the node. A pod may tolerate that a node is cordoned; the
// taint says that this one does not come back.
func (p *Peering) cordonNode(ctx context.Context, s *consumerScene) error {
	defer failpoint.Hit(failpoint.ConsumerNodeCordoned)
	update := s.node.DeepCopy()
	update.Spec.Unschedulable = true
	if !isCordoned(update) {
		update.Spec.Taints = append(update.Spec.Taints, endingTaint(s.inst.Spec.ReservationName))
	}
	return client.IgnoreNotFound(p.opts.Client.Patch(ctx, update, client.MergeFromWithOptions(s.node, client.MergeFromWithOptimisticLock{})))
}

func (p *Peering) evictPods(ctx context.Context, s *consumerScene, pods []PodView) error {
	defer failpoint.Hit(failpoint.ConsumerPodsEvicted)
	return p.eachPod(s, pods, func(pod PodView) error {
		return p.opts.Client.SubResource("eviction").Create(ctx, podOf(pod), &policyv1.Eviction{
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
		})
	})
}

func (p *Peering) removePods(ctx context.Context, s *consumerScene, pods []PodView) error {
	defer failpoint.Hit(failpoint.ConsumerPodsDeleted)
	return p.eachPod(s, pods, func(pod PodView) error {
		return p.opts.Client.Delete(ctx, podOf(pod), client.Preconditions{UID: &pod.UID})
	})
}

func podOf(pod PodView) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}

// eachPod asks every pod, whatever becomes of the others, and keeps what was refused. It
// returns an error where the API server did not answer for want of time.
func (p *Peering) eachPod(s *consumerScene, pods []PodView, ask func(PodView) error) error {
	for _, pod := range pods {
		err := ask(pod)
		switch {
		case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// It leaves, has left, or another one has its name by now.
		case !isRefusal(err):
			return fmt.Errorf("pod %q of namespace %q: %w", pod.Name, pod.Namespace, err)
		default:
			p.drains.note(s.Name, pod.UID, attempt{at: p.opts.Clock.Now(), refusal: why(err)})
		}
	}
	return nil
}

// isRefusal tells a considered no from an API server that is overloaded or away.
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

func why(err error) string {
	if no, answered := errors.AsType[*apierrors.StatusError](err); answered {
		return orElse(budgetOf(no), err.Error())
	}
	return err.Error()
}

// budgetOf is what the API server says of the disruption budget that holds a pod.
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
