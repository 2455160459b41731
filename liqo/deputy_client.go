package liqo

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// deputyClient is a client of the provider's cluster. It derives ProviderInstructions from the
// consumer's instructions, because the provider's cluster has none.
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
		into.Items = nil // a cluster without an agent asks for nothing
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}

// listInstructions returns all instructions for the provider, in any phase. It reads past the
// cache, because the last instruction takes the peering down.
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
