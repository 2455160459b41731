package app

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/providerinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
)

// freeCapacity provides the capacity snapshot of this cluster.
type freeCapacity interface {
	Synced() <-chan struct{}
	Snapshot() capacity.Snapshot
}

// admission decides whether this cluster accepts a placement. It checks the operator's consent,
// and that the amounts fit into the capacity that is free and lent, minus the capacity kept for
// other placements.
type admission struct {
	client    client.Reader
	capacity  freeCapacity
	namespace string
	// terms returns how much of the free capacity is lent.
	terms func() offering.Terms
	// liqo returns the condition of Liqo, nil without peering.
	liqo func(context.Context) *metav1.Condition
	// admitted holds the amounts that this process admitted and that the cache may not show as
	// enforced yet.
	admitted map[string]quantity.Amounts
}

func newAdmission(c client.Reader, free freeCapacity, namespace string, terms func() offering.Terms, liqo func(context.Context) *metav1.Condition) *admission {
	return &admission{client: c, capacity: free, namespace: namespace, terms: terms, liqo: liqo, admitted: map[string]quantity.Amounts{}}
}

func (a *admission) admitPlacement(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (providerinstruction.Admission, error) {
	select {
	case <-a.capacity.Synced():
	case <-ctx.Done():
		return providerinstruction.Admission{}, ctx.Err()
	}
	policy, err := configuration.ReadLendingPolicy(ctx, a.client)
	if err != nil {
		return providerinstruction.Admission{}, err
	}
	lends := wire.LendingTerms(policy)
	lends.Unready = installation.WhyUnready(a.liqo(ctx))
	why := lends.Refuses(inst.Spec.RequesterClusterID)
	if why == "" && lending.RecallOf(wire.Recalls(policy), inst.Spec.RequesterClusterID, inst.Spec.ReservationName) != nil {
		why = lending.Recalled
	}
	if why != "" {
		return providerinstruction.Admission{Reason: string(why), Message: why.Message(inst.Spec.RequesterClusterID)}, nil
	}
	wanted, err := quantity.FromResourceList(inst.Spec.Resources)
	if err != nil {
		return providerinstruction.Admission{Reason: agentv1alpha1.ReasonInvalid, Message: err.Error()}, nil
	}
	holds, err := a.keptForOthers(ctx, inst.Name)
	if err != nil {
		return providerinstruction.Admission{}, err
	}
	snapshot := a.capacity.Snapshot()
	held, stray := snapshot.Held(holds)
	terms := a.terms()
	free := terms.Lendable(snapshot.Allocatable, snapshot.Allocated.Add(stray)).Sub(held)
	if short, fits := quantity.Fits(wanted, free); !fits {
		return providerinstruction.Admission{
			Reason: agentv1alpha1.ReasonInsufficient,
			Message: fmt.Sprintf("requested %s of %s, but only %s of the lent capacity is free here", quantity.Format(short.Resource, short.Need),
				short.Resource, quantity.Format(short.Resource, max(short.Have, 0))),
		}, nil
	}
	a.admitted[inst.Name] = wanted
	return providerinstruction.Admission{
		Admitted: true, Reason: agentv1alpha1.ReasonAcknowledged, Message: "the capacity is free and reserved",
	}, nil
}

// keptForOthers returns the amounts kept for all placements except one.
func (a *admission) keptForOthers(ctx context.Context, but string) (map[string]quantity.Amounts, error) {
	list := &agentv1alpha1.ProviderInstructionList{}
	if err := a.client.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
		return nil, fmt.Errorf("listing reserved capacity: %w", err)
	}
	holds, known := map[string]quantity.Amounts{}, map[string]bool{}
	for i := range list.Items {
		p := &list.Items[i]
		known[p.Name] = true
		amounts, err := quantity.FromResourceList(p.Kept())
		if err != nil || p.Name == but || p.Status.Phase == agentv1alpha1.InstructionReleased {
			continue
		}
		admitted, ours := a.admitted[p.Name]
		if _, shown := quantity.Fits(admitted, amounts); ours && p.Status.Enforced && shown {
			// The cache shows the placement from now on, including reductions.
			delete(a.admitted, p.Name)
		}
		if ours || p.Status.Enforced {
			holds[p.Name] = amounts.Max(admitted)
		}
	}
	for name := range a.admitted {
		if !known[name] {
			delete(a.admitted, name)
		}
	}
	return holds, nil
}
