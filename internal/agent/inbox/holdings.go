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
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// announceHoldings tells a broker that has lost state which placements this cluster provides and
// consumes. It returns the instructions that the broker sends after this announcement. Instructions
// that the broker sent together with its question are dropped, because they may be outdated.
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
		Consumes: consumedReservations(consumed.Items, requests.Items, i.options.requestOf),
	}, nil
}

// providedPlacements includes ended placements that may not have been removed completely yet.
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
			Provisioning: p.AwaitsNewNodes(),
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

// consumedReservations lists the ResourceRequests that the broker was asked about and that are not
// over, and the instructions that are not released yet. An instruction may outlive its request, or
// have none.
func consumedReservations(
	all []agentv1alpha1.ReservationInstruction, requests []agentv1alpha1.ResourceRequest, requestOf func(*agentv1alpha1.ResourceRequest) v1.ReservationRequest,
) []v1.ConsumedReservation {
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
			Key: rr.IdempotencyKey(), Request: requestOf(rr),
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
				entry.Key, entry.Request = rr.IdempotencyKey(), requestOf(rr)
			} else {
				entry.Releasing = true
			}
		}
		out = append(out, entry)
	}
	return out
}

func (o *Options) requestOf(rr *agentv1alpha1.ResourceRequest) v1.ReservationRequest {
	out := wire.ReservationRequest(rr, o.ClusterID)
	if !o.HideActors {
		out.Actor = actor.Clean(actor.Author(rr))
	}
	return *out
}

// servesRequest reports whether an instruction still belongs to its request. If the request does
// not name its reservation yet, the instruction belongs to it, because that name is written after
// the instruction.
func servesRequest(inst *agentv1alpha1.ReservationInstruction, rr *agentv1alpha1.ResourceRequest) bool {
	return rr != nil && !isGivenBack(rr) && (rr.Status.ReservationName == "" || rr.Status.ReservationName == inst.Spec.ReservationName)
}

func isGivenBack(rr *agentv1alpha1.ResourceRequest) bool {
	return rr.DeletionTimestamp != nil || rr.Status.Phase == agentv1alpha1.RequestReleasing
}
