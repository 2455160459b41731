// Package admission decides whether this cluster accepts a placement, before the provider's
// controller acknowledges it.
package admission

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/fitting"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// freeCapacity measures this cluster's free capacity. *capacity.Watcher implements it.
type freeCapacity interface {
	Synced() <-chan struct{}
	Snapshot() capacity.Snapshot
	Layout() capacity.Layout
}

// Decision is this cluster's decision about a placement.
type Decision struct {
	// Admitted is true if this cluster accepts the placement.
	Admitted bool
	// NewNodes are nodes that must be created before the placement fits; nil if it is admitted or
	// refused. If nodes that are created for other placements suffice, Count is 0.
	NewNodes []agentv1alpha1.NewNodes
	// Reason is a reason that the API defines, such as InsufficientCapacity. Message explains the
	// decision to users.
	Reason, Message string
}

// LacksRoom reports whether a placement is refused only because there is no room for it.
func (d *Decision) LacksRoom() bool {
	return d.Reason == agentv1alpha1.ReasonInsufficient || d.Reason == agentv1alpha1.ReasonPodsDoNotFit
}

// Admitter decides about placements. Four conditions must hold: the cluster takes new placements at
// all; the operator's LendingPolicy allows the consumer; the amounts fit into the free capacity that
// is lent, minus what is kept for other placements; and the pods that the placement names are certain
// to fit on nodes, as are those that other placements named and may still create. If only room is
// missing, and nodes that the cluster creates on demand would have it, these are created first.
type Admitter struct {
	client    client.Reader
	capacity  freeCapacity
	namespace string
	// rules returns the rules that say how much of the free capacity is lent.
	rules func() offering.Rules
	// unready returns why the cluster takes no new placements at all; "" if it takes them.
	unready func(context.Context) (string, error)
	// admitted maps the names of instructions to what this process keeps for them. It is needed as long as
	// the cache does not show these placements as counted.
	admitted map[string]kept
}

// New returns an Admitter for the ProviderInstructions of a namespace.
func New(c client.Reader, free freeCapacity, namespace string, rules func() offering.Rules, unready func(context.Context) (string, error)) *Admitter {
	return &Admitter{client: c, capacity: free, namespace: namespace, rules: rules, unready: unready, admitted: map[string]kept{}}
}

// Admit decides about a placement, or about its changed amounts. Only one goroutine at a time may
// call it.
func (a *Admitter) Admit(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (Decision, error) {
	select {
	case <-a.capacity.Synced():
	case <-ctx.Done():
		return Decision{}, ctx.Err()
	}
	if !inst.Status.Enforced {
		delete(a.admitted, inst.Name) // an earlier decision that was not carried out
	}
	if refusal, err := a.refusalOf(ctx, inst); err != nil || refusal.Reason != "" {
		return refusal, err
	}
	wanted, err := quantity.FromResourceList(inst.Spec.Resources)
	if err != nil {
		return Decision{Reason: agentv1alpha1.ReasonInvalid, Message: err.Error()}, nil
	}
	others, err := a.keptForOthers(ctx, inst.Name)
	if err != nil {
		return Decision{}, err
	}
	room := a.measureRoom(others)
	decision := room.decidePlacement(inst, wanted)
	if decision.LacksRoom() && !inst.Status.Enforced { // a change of amounts creates no nodes
		if decision, err = room.decideNewNodes(inst, wanted, decision); err != nil {
			return Decision{}, err
		}
	}
	if decision.Admitted || decision.NewNodes != nil {
		a.admitted[inst.Name] = kept{inst, wanted, decision.NewNodes}
	}
	return decision, nil
}

// refusalOf returns a refusal if the operator's LendingPolicy does not allow the placement, if Liqo
// does not work, or if the agent is being uninstalled. Otherwise Reason is empty.
func (a *Admitter) refusalOf(ctx context.Context, inst *agentv1alpha1.ProviderInstruction) (Decision, error) {
	policy, err := configuration.ReadLendingPolicy(ctx, a.client)
	if err != nil {
		return Decision{}, err
	}
	lends := wire.LendingPolicy(policy)
	if lends.Unready, err = a.unready(ctx); err != nil {
		return Decision{}, err
	}
	why := lends.Refuses(inst.Spec.RequesterClusterID)
	if why == "" && lending.RecallOf(wire.Recalls(policy), inst.Spec.RequesterClusterID, inst.Spec.ReservationName) != nil {
		why = lending.Recalled
	}
	if why == "" {
		return Decision{}, nil
	}
	return Decision{Reason: string(why), Message: why.Message(inst.Spec.RequesterClusterID)}, nil
}

// room is the capacity of this cluster and what is kept of it for other placements than the one to
// decidePlacement about. created are nodes that count although they do not exist yet.
type room struct {
	snapshot capacity.Snapshot
	layout   capacity.Layout
	rules    offering.Rules
	others   map[string]kept
	created  []quantity.NodeShape
}

// measureRoom returns the room on the nodes that exist now.
func (a *Admitter) measureRoom(others map[string]kept) *room {
	return &room{snapshot: a.capacity.Snapshot(), layout: a.capacity.Layout(), rules: a.rules(), others: others}
}

// decidePlacement returns whether a placement fits, or else why it does not.
func (m *room) decidePlacement(inst *agentv1alpha1.ProviderInstruction, wanted quantity.Amounts) Decision {
	if why := m.sumsShort(wanted); why != "" {
		return Decision{Reason: agentv1alpha1.ReasonInsufficient, Message: why}
	}
	switch why, err := m.nodesShort(inst, wanted); {
	case err != nil:
		return Decision{Reason: agentv1alpha1.ReasonInvalid, Message: err.Error()}
	case why != "":
		return Decision{Reason: agentv1alpha1.ReasonPodsDoNotFit, Message: why}
	}
	return Decision{Admitted: true, Reason: agentv1alpha1.ReasonAcknowledged, Message: "the capacity is free and reserved"}
}

// sumsShort explains why the wanted amounts do not fit into the free capacity that is lent. It
// returns "" if they fit.
func (m *room) sumsShort(wanted quantity.Amounts) string {
	holds := make(map[string]quantity.Amounts, len(m.others))
	for name, k := range m.others {
		holds[name] = k.amounts
	}
	held, stray := m.snapshot.Held(holds)
	own := m.snapshot.Allocated.Add(stray)
	free := m.rules.Lendable(m.snapshot.Allocatable, own).Add(m.rules.Extension(m.snapshot.Allocatable, own, m.created)).Sub(held)
	short, fits := quantity.Fits(wanted, free)
	if fits {
		return ""
	}
	return fmt.Sprintf("requested %s of %s, but only %s of the lent capacity is free here", quantity.Format(short.Resource, short.Need),
		short.Resource, quantity.Format(short.Resource, max(short.Have, 0)))
}

// nodesShort explains why the pods of a placement do not fit on the nodes. It returns "" if they
// fit. It ignores over-subscription, because a pod needs real room on its node.
func (m *room) nodesShort(inst *agentv1alpha1.ProviderInstruction, wanted quantity.Amounts) (string, error) {
	promise, err := promiseOf(inst, wanted, m.layout.Running[inst.Name])
	if err != nil {
		return "", err
	}
	var nodes []fitting.Node
	for _, s := range slices.Concat(m.layout.Nodes, m.created) {
		nodes = append(nodes, fitting.Node{Count: s.Count, Free: s.Free, Labels: s.Labels, Taints: s.Taints})
	}
	var promises []fitting.Promise
	for _, name := range slices.Sorted(maps.Keys(m.others)) {
		k := m.others[name]
		if k.inst.Ended() {
			continue // an ended placement gets no more pods
		}
		// An instruction that causes an error is invalid and was never accepted.
		if other, err := promiseOf(k.inst, k.amounts, m.layout.Running[name]); err == nil {
			promises = append(promises, other)
		}
	}
	if misfit := fitting.Check(nodes, promises, promise); misfit != nil {
		return misfit.Message(), nil
	}
	return "", nil
}

// tolerationsOf returns the tolerations of a placement's pods, among them those of its devices.
func tolerationsOf(placement *agentv1alpha1.ProviderInstructionSpec) []brokerv1alpha1.Toleration {
	amounts, err := quantity.FromResourceList(placement.Resources)
	if err != nil {
		return placement.Tolerations // the placement is refused for these amounts
	}
	return requirements.WithDevices(placement.Tolerations, amounts)
}

// promiseOf returns the part of a placement for which no pods run yet.
func promiseOf(inst *agentv1alpha1.ProviderInstruction, amounts quantity.Amounts, running []quantity.Amounts) (fitting.Promise, error) {
	promised := make([]fitting.Pods, len(inst.Spec.PodShapes))
	for i, p := range inst.Spec.PodShapes {
		each, err := quantity.FromResourceList(corev1.ResourceList(p.Resources))
		if err != nil {
			return fitting.Promise{}, fmt.Errorf("podShapes[%d]: %w", i, err)
		}
		promised[i] = fitting.Pods{Count: int64(p.Count), Each: each}
	}
	out := fitting.Promise{NodeSelector: wire.FromLabels(inst.Spec.NodeSelector), Tolerations: tolerationsOf(&inst.Spec)}
	out.Pods, out.Rest = fitting.Unused(amounts, promised, running)
	return out, nil
}

// kept is a placement, the amounts that are kept for it, and the nodes that are created for it, nil for
// none.
type kept struct {
	inst     *agentv1alpha1.ProviderInstruction
	amounts  quantity.Amounts
	newNodes []agentv1alpha1.NewNodes
}

// keptForOthers returns the amounts kept for each placement that this cluster has admitted and not
// released, except the one with the given name.
func (a *Admitter) keptForOthers(ctx context.Context, but string) (map[string]kept, error) {
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
		if _, shown := quantity.Fits(admitted.amounts, amounts); ours && shown && (p.Status.Enforced || p.AwaitsNewNodes() && admitted.newNodes != nil) {
			// The cache shows the placement now, and will also show later changes of its amounts.
			delete(a.admitted, p.Name)
		}
		if ours || p.IsCounted() {
			newNodes := p.Status.NewNodes
			if newNodes == nil {
				newNodes = admitted.newNodes
			}
			holds[p.Name] = kept{p, amounts.Max(admitted.amounts), newNodes}
		}
	}
	for name := range a.admitted {
		if !known[name] {
			delete(a.admitted, name)
		}
	}
	return holds, nil
}
