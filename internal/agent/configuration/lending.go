package configuration

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// ReadLendingPolicy returns the LendingPolicy of this cluster, or nil if the cluster has none.
func ReadLendingPolicy(ctx context.Context, c client.Reader) (*agentv1alpha1.LendingPolicy, error) {
	policy := &agentv1alpha1.LendingPolicy{}
	err := c.Get(ctx, client.ObjectKey{Name: agentv1alpha1.LendingPolicyName}, policy)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the LendingPolicy %q: %w", agentv1alpha1.LendingPolicyName, err)
	}
	return policy, nil
}
