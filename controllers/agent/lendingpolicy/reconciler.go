package lendingpolicy

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

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
