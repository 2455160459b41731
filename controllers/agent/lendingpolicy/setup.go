// Package lendingpolicy shows in the status of the LendingPolicy that the policy is in force, and
// how many placements it affects. It does not apply the policy: the admission of placements and
// the advertisement read it themselves.
package lendingpolicy

import (
	"context"
	"fmt"

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
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
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
