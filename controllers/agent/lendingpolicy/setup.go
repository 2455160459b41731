// Package lendingpolicy shows in the status of the LendingPolicy that the policy is in force, and
// how many placements it affects. It does not apply the policy: the admission of placements and
// the advertisement read it themselves.
package lendingpolicy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// +kubebuilder:rbac:groups=liqo.io,resources=lendingpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=liqo.io,resources=lendingpolicies/status,verbs=patch
// +kubebuilder:rbac:groups=liqo.io,resources=providerinstructions,verbs=get;list;watch

// Options of a Reconciler; all are required.
type Options struct {
	InstructionNamespace string
	Clock                clock.PassiveClock
}

// Reconciler updates the status of the LendingPolicy.
type Reconciler struct {
	client  client.Client
	options Options
}

// SetupWithManager adds the controller to a manager.
func SetupWithManager(mgr ctrl.Manager, options Options) error {
	r := &Reconciler{client: mgr.GetClient(), options: options}
	one := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: agentv1alpha1.LendingPolicyName}}}
	}
	instructions := predicate.NewPredicateFuncs(func(o client.Object) bool {
		return o.GetNamespace() == options.InstructionNamespace
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("lendingpolicy").
		// Changes of the status are ignored, because this controller writes the status itself.
		For(&agentv1alpha1.LendingPolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&agentv1alpha1.ProviderInstruction{}, handler.EnqueueRequestsFromMapFunc(one), builder.WithPredicates(instructions)).
		Complete(r)
}

// Reconcile computes the status of the LendingPolicy and writes it if it changed.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	policy, err := configuration.ReadLendingPolicy(ctx, r.client)
	if err != nil || policy == nil {
		return ctrl.Result{}, err
	}
	var list agentv1alpha1.ProviderInstructionList
	if err := r.client.List(ctx, &list, client.InNamespace(r.options.InstructionNamespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list provider instructions: %w", err)
	}
	before := policy.DeepCopy()
	describeStatus(policy, list.Items, r.options.Clock.Now())
	_, err = patch.StatusFields(ctx, r.client, policy, before)
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

func describeStatus(policy *agentv1alpha1.LendingPolicy, all []agentv1alpha1.ProviderInstruction, now time.Time) {
	s, paused := &policy.Status, wire.LendingPolicy(policy).Paused
	s.ObservedGeneration, s.Message, s.Placements, s.Refused = policy.Generation, describeLending(&policy.Spec, paused), 0, 0
	s.Recalling, s.RecalledUntil = 0, nil
	for i := range all {
		if c := all[i].Status.Recalled; c != nil {
			s.Recalling++
			if s.RecalledUntil == nil || s.RecalledUntil.Before(&c.EndsAt) {
				s.RecalledUntil = c.EndsAt.DeepCopy()
			}
		}
		switch {
		case all[i].Status.Enforced:
			s.Placements++
		case isRefusedByPolicy(&all[i]):
			s.Refused++
		}
	}
	set := func(kind string, status metav1.ConditionStatus, reason, text string) {
		message.SetCondition(&s.Conditions, kind, status, reason, text, policy.Generation, now)
	}
	set(agentv1alpha1.ConditionReady, metav1.ConditionTrue, agentv1alpha1.ReasonApplied, "this policy is in force")
	if paused {
		set(agentv1alpha1.ConditionLending, metav1.ConditionFalse, string(lending.LendingPaused), s.Message)
	} else {
		set(agentv1alpha1.ConditionLending, metav1.ConditionTrue, agentv1alpha1.ReasonLending, s.Message)
	}
}

// isRefusedByPolicy reports whether a placement was refused because of the policy, and not, for
// example, for lack of capacity.
func isRefusedByPolicy(inst *agentv1alpha1.ProviderInstruction) bool {
	c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionAcknowledged)
	return c != nil && c.Status == metav1.ConditionFalse &&
		slices.Contains([]string{string(lending.LendingPaused), string(lending.ConsumerDenied), string(lending.Recalled)}, c.Reason)
}

// describeLending describes the policy in one sentence. It counts clusters without naming them,
// because many people read and copy the message.
func describeLending(spec *agentv1alpha1.LendingPolicySpec, paused bool) string {
	allowed, denied := 0, 0
	if c := spec.Consumers; c != nil {
		allowed, denied = len(c.Allow), len(c.Deny)
	}
	switch {
	case spec.Paused && len(spec.Recalls) == 0:
		return "lending is paused: nothing new is granted, existing placements stay"
	case paused:
		return "lending is paused: nothing new is granted, and the placements in recalls are called back"
	case allowed > 0:
		return fmt.Sprintf("lends to the %d clusters in consumers.allow", allowed)
	case denied > 0:
		return fmt.Sprintf("lends to every cluster except the %d in consumers.deny", denied)
	default:
		return "lends to every cluster"
	}
}
