package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/providerinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/fitting"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
)

// freeCapacity provides the capacity snapshot of this cluster.
type freeCapacity interface {
	Synced() <-chan struct{}
	Snapshot() capacity.Snapshot
	Layout() capacity.Layout
}

// admission decides whether this cluster accepts a placement. It checks the operator's consent,
// that the amounts fit into the capacity that is free and lent, minus the capacity kept for
// other placements, and that pods of the given shapes, or amounts on the given nodes, fit next to
// the pods promised to others.
type admission struct {
	client    client.Reader
	capacity  freeCapacity
	namespace string
	// rules returns how much of the free capacity is lent.
	rules func() offering.Rules
	// liqo returns the condition of Liqo, nil without peering.
	liqo func(context.Context) *metav1.Condition
	// admitted holds the amounts that this process admitted and that the cache may not show as
	// enforced yet.
	admitted map[string]quantity.Amounts
}

func newAdmission(c client.Reader, free freeCapacity, namespace string, rules func() offering.Rules, liqo func(context.Context) *metav1.Condition) *admission {
	return &admission{client: c, capacity: free, namespace: namespace, rules: rules, liqo: liqo, admitted: map[string]quantity.Amounts{}}
}

func (a *admission) admitPlacement(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (providerinstruction.Admission, error) {
	select {
	case <-a.capacity.Synced():
	case <-ctx.Done():
		return providerinstruction.Admission{}, ctx.Err()
	}
	if refusal, err := a.refusalOf(ctx, inst); err != nil || refusal.Reason != "" {
		return refusal, err
	}
	wanted, err := quantity.FromResourceList(inst.Spec.Resources)
	if err != nil {
		return providerinstruction.Admission{Reason: agentv1alpha1.ReasonInvalid, Message: err.Error()}, nil
	}
	others, err := a.keptForOthers(ctx, inst.Name)
	if err != nil {
		return providerinstruction.Admission{}, err
	}
	why := a.sumsShort(wanted, others)
	if why == "" {
		why, err = a.nodesShort(inst, wanted, others)
	}
	switch {
	case err != nil:
		return providerinstruction.Admission{Reason: agentv1alpha1.ReasonInvalid, Message: err.Error()}, nil
	case why != "":
		return providerinstruction.Admission{Reason: agentv1alpha1.ReasonInsufficient, Message: why}, nil
	}
	a.admitted[inst.Name] = wanted
	return providerinstruction.Admission{
		Admitted: true, Reason: agentv1alpha1.ReasonAcknowledged, Message: "the capacity is free and reserved",
	}, nil
}

// refusalOf returns the operator's refusal; its Reason is empty if there is none.
func (a *admission) refusalOf(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (providerinstruction.Admission, error) {
	policy, err := configuration.ReadLendingPolicy(ctx, a.client)
	if err != nil {
		return providerinstruction.Admission{}, err
	}
	lends := wire.LendingPolicy(policy)
	lends.Unready = installation.WhyUnready(a.liqo(ctx))
	why := lends.Refuses(inst.Spec.RequesterClusterID)
	if why == "" && lending.RecallOf(wire.Recalls(policy), inst.Spec.RequesterClusterID, inst.Spec.ReservationName) != nil {
		why = lending.Recalled
	}
	if why == "" {
		return providerinstruction.Admission{}, nil
	}
	return providerinstruction.Admission{Reason: string(why), Message: why.Message(inst.Spec.RequesterClusterID)}, nil
}

// sumsShort returns why amounts do not fit into the free capacity that is lent; "" if they do.
func (a *admission) sumsShort(wanted quantity.Amounts, others map[string]kept) string {
	holds := make(map[string]quantity.Amounts, len(others))
	for name, k := range others {
		holds[name] = k.amounts
	}
	snapshot := a.capacity.Snapshot()
	held, stray := snapshot.Held(holds)
	rules := a.rules()
	free := rules.Lendable(snapshot.Allocatable, snapshot.Allocated.Add(stray)).Sub(held)
	short, fits := quantity.Fits(wanted, free)
	if fits {
		return ""
	}
	return fmt.Sprintf("requested %s of %s, but only %s of the lent capacity is free here", quantity.Format(short.Resource, short.Need),
		short.Resource, quantity.Format(short.Resource, max(short.Have, 0)))
}

// nodesShort returns why a placement does not fit on the nodes; "" if it does, or if it names
// neither pods nor nodes and may run on all of them. Over-subscription does not count: a pod needs
// real room.
func (a *admission) nodesShort(inst *agentv1alpha1.ProviderInstruction, wanted quantity.Amounts, others map[string]kept) (string, error) {
	if len(inst.Spec.PodShapes) == 0 && !a.picksNodes(&inst.Spec) {
		return "", nil
	}
	layout := a.capacity.Layout()
	promise, err := promiseOf(inst, wanted, layout.Running[inst.Name])
	if err != nil {
		return "", err
	}
	nodes := make([]fitting.Node, len(layout.Nodes))
	for i, s := range layout.Nodes {
		nodes[i] = fitting.Node{Count: s.Count, Free: s.Free, Labels: s.Labels, Taints: s.Taints}
	}
	var promises []fitting.Promise
	for _, name := range slices.Sorted(maps.Keys(others)) {
		k := others[name]
		if k.inst.Ended() {
			continue // its pods only become fewer
		}
		// An instruction accepted before is valid.
		if other, err := promiseOf(k.inst, k.amounts, layout.Running[name]); err == nil {
			promises = append(promises, other)
		}
	}
	if misfit := fitting.Check(nodes, promises, promise); misfit != nil {
		return misfit.Message(), nil
	}
	return "", nil
}

// picksNodes reports whether the pods of a placement may run on some of the lent nodes only.
func (a *admission) picksNodes(placement *agentv1alpha1.ProviderInstructionSpec) bool {
	return len(placement.NodeSelector) > 0 || slices.ContainsFunc(a.capacity.Snapshot().NodeShapes, func(n quantity.NodeShape) bool {
		return !requirements.TolerateAll(placement.Tolerations, n.Taints)
	})
}

// promiseOf returns the part of a placement that does not run yet.
func promiseOf(inst *agentv1alpha1.ProviderInstruction, amounts quantity.Amounts, running []quantity.Amounts) (fitting.Promise, error) {
	promised := make([]fitting.Pods, len(inst.Spec.PodShapes))
	for i, p := range inst.Spec.PodShapes {
		each, err := quantity.FromResourceList(corev1.ResourceList(p.Resources))
		if err != nil {
			return fitting.Promise{}, fmt.Errorf("podShapes[%d]: %w", i, err)
		}
		promised[i] = fitting.Pods{Count: int64(p.Count), Each: each}
	}
	out := fitting.Promise{NodeSelector: wire.FromLabels(inst.Spec.NodeSelector), Tolerations: inst.Spec.Tolerations}
	out.Pods, out.Rest = fitting.Unused(amounts, promised, running)
	return out, nil
}

// kept is what is kept for a placement.
type kept struct {
	inst    *agentv1alpha1.ProviderInstruction
	amounts quantity.Amounts
}

// keptForOthers returns what is kept for all placements except one.
func (a *admission) keptForOthers(ctx context.Context, but string) (map[string]kept, error) {
	list := &agentv1alpha1.ProviderInstructionList{}
	if err := a.client.List(ctx, list, client.InNamespace(a.namespace)); err != nil {
		return nil, fmt.Errorf("listing reserved capacity: %w", err)
	}
	holds, known := map[string]kept{}, map[string]bool{}
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
			holds[p.Name] = kept{p, amounts.Max(admitted)}
		}
	}
	for name := range a.admitted {
		if !known[name] {
			delete(a.admitted, name)
		}
	}
	return holds, nil
}
