package enforcement

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// cordonFor is how long new pods of a placement stay blocked after its pods fit into the grant
// again, so that a consumer gains nothing by exceeding its grant repeatedly.
const cordonFor = time.Minute

// Reconcile enforces the grant of one placement. It ignores placements without reserved capacity,
// and ended ones, whose pods are all removed anyway.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	inst := &agentv1alpha1.ProviderInstruction{}
	err := r.client.Get(ctx, req.NamespacedName, inst)
	if err != nil || req.Namespace != r.opts.Namespace || inst.Ended() || !inst.Status.Enforced {
		delete(r.seen, req.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// The series begins with 0: Prometheus sees no increase in one that begins with the first evictions.
	r.evicted.WithLabelValues(inst.Spec.RequesterClusterID)
	again, err := r.enforceGrant(ctx, inst)
	return patch.Requeue(again, client.IgnoreNotFound(err))
}

// enforceGrant compares a placement's pods with its grant. It evicts pods that exceed the grant, or
// makes Liqo try again to create pods that were refused. It returns when to check again even if no
// event arrives; 0 means never.
func (r *Reconciler) enforceGrant(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (time.Duration, error) {
	allowance, err := allowanceOf(inst)
	if err != nil {
		return 0, fmt.Errorf("placement %q: %w", inst.Name, err)
	}
	now := r.opts.Clock.Now()
	pods, unseen, expires := r.opts.Book.Pods(inst.Name, now)
	if over := allowance.Beyond(pods); len(over) > 0 {
		return 0, r.evictPods(ctx, inst, pods, allowance, over)
	}
	clears, err := r.clearExcess(ctx, inst, enforcement.Used(pods), allowance)
	if err != nil {
		return 0, err
	}
	room := allowance.Limits.Sub(enforcement.Used(pods)).Sub(unseen)
	retries, err := r.wakeWaiting(ctx, inst, room)
	return patch.Soonest(expires, clears, retries), err
}

func allowanceOf(inst *agentv1alpha1.ProviderInstruction) (a enforcement.Allowance, err error) {
	if a.Limits, err = enforcement.LimitsOf(inst.Kept()); err != nil {
		return a, err
	}
	if reduced := inst.Status.Reduced; reduced != nil {
		a.Before, err = enforcement.LimitsOf(reduced.Resources)
		a.Reduced = reduced.At.Time
	}
	return a, err
}

// evictPods blocks new pods of the placement, then evicts the newest pods until the rest fits. A
// crash between two steps does no harm: the next reconcile starts over with the remaining pods.
func (r *Reconciler) evictPods(ctx context.Context, inst *agentv1alpha1.ProviderInstruction, pods []enforcement.Pod, a enforcement.Allowance, over quantity.Amounts) error {
	err := r.noteExcess(ctx, inst, func(e *agentv1alpha1.GrantExcess) {
		e.Resources, e.Cordoned = over.ToResourceList(), true
		largest, _ := quantity.FromResourceList(e.Largest) // nil if the status was edited to an invalid amount
		e.Largest = largest.Max(over).ToResourceList()
	})
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.ExcessNoted)
	if err := r.opts.Peering.SetCordoned(ctx, inst, true); err != nil {
		return err
	}
	failpoint.Hit(failpoint.ExcessCordoned)
	victims := enforcement.Victims(pods, a)
	if len(victims) == 0 {
		return nil // pods evicted earlier are still terminating
	}
	for i := range victims {
		if err := r.evictPod(ctx, &victims[i]); err != nil {
			return err
		}
		r.evicted.WithLabelValues(inst.Spec.RequesterClusterID).Inc()
		failpoint.Hit(failpoint.ExcessPodEvicted)
	}
	r.recordEvictions(ctx, inst, victims, over)
	return r.noteExcess(ctx, inst, func(e *agentv1alpha1.GrantExcess) { e.EvictedPods += int32(len(victims)) }) //nolint:gosec // a placement has fewer pods
}

// evictPod deletes the ShadowPod first: otherwise Liqo would create the pod again.
func (r *Reconciler) evictPod(ctx context.Context, pod *enforcement.Pod) error {
	if err := r.opts.Peering.DeleteShadowPod(ctx, pod.NamespacedName, pod.Owner); err != nil {
		return err
	}
	failpoint.Hit(failpoint.ExcessShadowPodDeleted)
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err := r.client.Delete(ctx, object, client.GracePeriodSeconds(int64(enforcement.EvictionGrace.Seconds())), client.Preconditions{UID: &pod.UID})
	if err = client.IgnoreNotFound(err); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("evicting pod %q, which exceeds the grant: %w", pod.NamespacedName, err)
	}
	return nil
}

func (r *Reconciler) recordEvictions(ctx context.Context, inst *agentv1alpha1.ProviderInstruction, victims []enforcement.Pod, over quantity.Amounts) {
	const mostNamed = 5
	var names []string
	for i := range victims[:min(len(victims), mostNamed)] {
		names = append(names, victims[i].String())
	}
	ctrl.LoggerFrom(ctx).Info("evicted pods that exceed the grant", "placement", inst.Name, "consumer", inst.Spec.RequesterClusterID,
		"pods", len(victims), "first", names, "excess", over)
	r.opts.Recorder.Eventf(inst, nil, corev1.EventTypeWarning, agentv1alpha1.ReasonExceedsGrant, "Evict",
		"%d pods of %q exceeded the grant and were evicted: %s", len(victims), inst.Spec.RequesterClusterID, strings.Join(names, ", "))
}

// clearExcess updates the status of a placement whose pods fit into the grant. It clears the
// excess, and clears status.reduced once the pods fit into the reduced grant. New pods stay blocked
// for another cordonFor after the excess was cleared. clearExcess returns how long they still stay
// blocked, or 0 if they are not blocked.
func (r *Reconciler) clearExcess(ctx context.Context, inst *agentv1alpha1.ProviderInstruction, used quantity.Amounts, a enforcement.Allowance) (time.Duration, error) {
	if inst.Status.Reduced != nil && len(enforcement.Excess(used, a.Limits)) == 0 {
		if err := r.patchStatus(ctx, inst, func() { inst.Status.Reduced = nil }); err != nil {
			return 0, err
		}
	}
	excess := inst.Status.Excess
	if excess == nil {
		return 0, nil
	}
	if len(excess.Resources) > 0 {
		if err := r.noteExcess(ctx, inst, func(e *agentv1alpha1.GrantExcess) { e.Resources = nil }); err != nil {
			return 0, err
		}
	}
	if !inst.Status.Excess.Cordoned {
		return 0, nil
	}
	if left := inst.Status.Excess.LastSeen.Add(cordonFor).Sub(r.opts.Clock.Now()); left > 0 {
		return left, nil
	}
	if err := r.opts.Peering.SetCordoned(ctx, inst, false); err != nil {
		return 0, err
	}
	return 0, r.patchStatus(ctx, inst, func() { inst.Status.Excess.Cordoned = false })
}

// noteExcess applies change to status.excess, and sets lastSeen if that changes something.
func (r *Reconciler) noteExcess(ctx context.Context, inst *agentv1alpha1.ProviderInstruction, change func(*agentv1alpha1.GrantExcess)) error {
	return r.patchStatus(ctx, inst, func() {
		before := inst.Status.Excess
		after := &agentv1alpha1.GrantExcess{}
		if before != nil {
			after = before.DeepCopy()
		}
		change(after)
		if before == nil || !equality.Semantic.DeepEqual(before, after) {
			after.LastSeen = metav1.NewTime(r.opts.Clock.Now())
		}
		inst.Status.Excess = after
	})
}

func (r *Reconciler) patchStatus(ctx context.Context, inst *agentv1alpha1.ProviderInstruction, change func()) error {
	before := inst.DeepCopy()
	change()
	_, err := patch.StatusFields(ctx, r.client, inst, before)
	return err
}
