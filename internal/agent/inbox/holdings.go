package inbox

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// announceHoldings sends this cluster's holdings to a broker that has lost state, and returns the
// instructions that follow. The broker's earlier instructions may be outdated, so they are not
// applied.
func (i *Instructions) announceHoldings(ctx context.Context) (*v1.InstructionList, error) {
	holdings, err := i.collectHoldings(ctx)
	if err != nil {
		return nil, err
	}
	log.FromContext(ctx).Info("broker asks for this cluster's holdings, announcing them",
		"provided", len(holdings.Provides), "consumed", len(holdings.Consumes))
	if err := i.broker.AnnounceHoldings(ctx, holdings); err != nil {
		return nil, fmt.Errorf("announce holdings: %w", err)
	}
	return i.broker.FetchInstructions(ctx, "", 0)
}

func (i *Instructions) collectHoldings(ctx context.Context) (*v1.Holdings, error) {
	var (
		provided agentv1alpha1.ProviderInstructionList
		consumed agentv1alpha1.ReservationInstructionList
		requests agentv1alpha1.ResourceRequestList
	)
	here := client.InNamespace(i.options.Namespace)
	if err := i.options.Reader.List(ctx, &provided, here); err != nil {
		return nil, fmt.Errorf("list provider instructions: %w", err)
	}
	if err := i.options.Reader.List(ctx, &consumed, here); err != nil {
		return nil, fmt.Errorf("list reservation instructions: %w", err)
	}
	if err := i.options.Reader.List(ctx, &requests); err != nil {
		return nil, fmt.Errorf("list resource requests: %w", err)
	}
	return &v1.Holdings{
		Provides: i.providedPlacements(provided.Items),
		Consumes: consumedReservations(consumed.Items, requests.Items, i.options.ClusterID),
	}, nil
}

// providedPlacements lists the placements that this cluster provides or that may have left something
// here.
func (i *Instructions) providedPlacements(all []agentv1alpha1.ProviderInstruction) []v1.ProvidedPlacement {
	out := []v1.ProvidedPlacement{}
	for n := range all {
		p := &all[n]
		if p.Status.Phase == agentv1alpha1.InstructionReleased || p.Status.Phase == agentv1alpha1.InstructionRefused {
			continue
		}
		entry := v1.ProvidedPlacement{
			Reservation: p.Spec.ReservationName, Placement: p.Spec.Placement, ConsumerID: p.Spec.RequesterClusterID,
			Resources:    wire.FromResourceList(p.Kept()),
			Acknowledged: meta.IsStatusConditionTrue(p.Status.Conditions, agentv1alpha1.ConditionAcknowledged),
			Releasing:    p.Ended(),
		}
		if p.Spec.ExpiresAt != nil {
			left := max(p.Spec.ExpiresAt.Sub(i.options.Clock.Now()), 0).Seconds()
			entry.RemainingSeconds = &left
		}
		out = append(out, entry)
	}
	return out
}

// consumedReservations lists the requests, and the instructions that are carried out. An instruction may
// outlive its request or have none.
func consumedReservations(all []agentv1alpha1.ReservationInstruction, requests []agentv1alpha1.ResourceRequest, clusterID string) []v1.ConsumedReservation {
	out := []v1.ConsumedReservation{}
	asking := map[types.UID]*agentv1alpha1.ResourceRequest{}
	for n := range requests {
		rr := &requests[n]
		if !rr.Status.Asked || rr.Status.Phase == agentv1alpha1.RequestFailed || rr.Status.Phase == agentv1alpha1.RequestReleased {
			continue
		}
		asking[rr.UID] = rr
		out = append(out, v1.ConsumedReservation{
			Reservation: rr.Status.ReservationName, ProviderID: rr.Status.TargetClusterID,
			Key: rr.IdempotencyKey(), Request: *wire.ReservationRequest(rr, clusterID),
			Releasing: isGivenBack(rr),
		})
	}
	for n := range all {
		inst := &all[n]
		if inst.Status.Phase == agentv1alpha1.InstructionReleased {
			continue
		}
		entry := v1.ConsumedReservation{
			Reservation: inst.Spec.ReservationName, Placement: inst.Spec.Placement, ProviderID: inst.Spec.TargetClusterID,
			Ready:     meta.IsStatusConditionTrue(inst.Status.Conditions, agentv1alpha1.ConditionNodeReady),
			Releasing: inst.Ended(),
		}
		if ref := inst.Spec.RequestRef; ref != nil {
			rr := asking[types.UID(ref.UID)]
			if servesRequest(inst, rr) {
				entry.Key, entry.Request = rr.IdempotencyKey(), *wire.ReservationRequest(rr, clusterID)
			} else {
				entry.Releasing = true
			}
		}
		out = append(out, entry)
	}
	return out
}

// servesRequest reports whether an instruction still belongs to its request. A request without a
// reservation name matches, because the name is written after the instruction.
func servesRequest(inst *agentv1alpha1.ReservationInstruction, rr *agentv1alpha1.ResourceRequest) bool {
	return rr != nil && !isGivenBack(rr) && (rr.Status.ReservationName == "" || rr.Status.ReservationName == inst.Spec.ReservationName)
}

func isGivenBack(rr *agentv1alpha1.ResourceRequest) bool {
	return rr.DeletionTimestamp != nil || rr.Status.Phase == agentv1alpha1.RequestReleasing
}
