package liqo

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// deputyClient is a client of a provider's cluster. The provider's cluster has no
// ProviderInstructions, so deputyClient derives them from the instructions in the consumer's
// cluster.
type deputyClient struct {
	client.Client
	consumer *Peering
	provider string
}

// Get implements client.Reader.
func (c deputyClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	into, ok := obj.(*agentv1alpha1.ProviderInstruction)
	if !ok {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	all, err := c.listInstructions(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Name == key.Name {
			*into = all[i]
			return nil
		}
	}
	return apierrors.NewNotFound(agentv1alpha1.GroupVersion.WithResource("providerinstructions").GroupResource(), key.Name)
}

// List implements client.Reader.
func (c deputyClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) (err error) {
	switch into := list.(type) {
	case *agentv1alpha1.ProviderInstructionList:
		into.Items, err = c.listInstructions(ctx)
		return err
	case *agentv1alpha1.ReservationInstructionList:
		into.Items = nil // a cluster without an agent requests no reservations
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}

// listInstructions returns an instruction for each placement at the provider, in any phase. It
// bypasses the cache: the peering is removed with its last placement, and a stale list might not
// contain another placement that still needs the peering.
func (c deputyClient) listInstructions(ctx context.Context) ([]agentv1alpha1.ProviderInstruction, error) {
	o := &c.consumer.opts
	var list agentv1alpha1.ReservationInstructionList
	err := o.Reader.List(ctx, &list, client.InNamespace(o.InstructionNamespace), client.MatchingFields{"spec.targetClusterID": c.provider})
	if err != nil {
		return nil, fmt.Errorf("listing the placements at %q: %w", c.provider, err)
	}
	var all []agentv1alpha1.ProviderInstruction
	for i := range list.Items {
		all = append(all, *instructionFor(&list.Items[i], o.ClusterID))
	}
	return all, nil
}
