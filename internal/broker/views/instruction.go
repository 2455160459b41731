package views

import (
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// InstructionFor returns the instruction about a placement for one of its sides.
func (v *Views) InstructionFor(r *ledger.Reservation, p *ledger.Placement, role v1.InstructionRole) v1.Instruction {
	in := v1.Instruction{
		Reservation:      r.Name,
		Placement:        p.Number,
		Role:             role,
		State:            v1.InstructionState(r.Instruction(p)),
		Acknowledged:     !p.AcknowledgedAt.IsZero(),
		ConsumerID:       r.Requester,
		ProviderID:       p.Provider,
		ProviderEndpoint: v.s.Book().Cluster(p.Provider).Endpoint,
		Resources:        wire.FromAmounts(r.AgreedWith(p)),
		RemainingSeconds: v.remainingSeconds(r),
		Notice:           v.noticeOf(r, p),
	}
	if role == v1.InstructionRoleConsumer {
		in.Key, in.Unattended, in.Reason = r.RequestKey(), !v.s.Book().HasAgent(p.Provider), p.Withdrawn
		in.Cost = showCost(r)
		if since := v.s.Book().Cluster(p.Provider).LostSince; !since.IsZero() && r.Stands(p) {
			in.ProviderSilentSeconds = new(v.s.Now().Sub(since).Seconds())
		}
		if by := v.connectBy(r, p); !by.IsZero() {
			in.ConnectSeconds = new(v.secondsTo(by))
		}
		if c := r.ProvisioningOf(p); c != nil {
			in.ProvisionSeconds = new(v.secondsTo(c.Ends))
		}
		if at := v.s.SearchesAt(r, p); !at.IsZero() {
			in.MoveSeconds = new(v.secondsTo(at))
		}
		in.Idle = v.s.IdleTimeOf(r, p)
		if x := p.Excess; x != nil {
			in.Excess = &v1.Excess{Pods: x.Pods, Resources: wire.FromAmounts(x.Amounts)}
		}
		return in
	}
	if asked := r.AskedOf(p); asked != nil {
		in.Resources, in.Change = wire.FromAmounts(asked.Amounts), asked.Generation
	}
	if demands := r.Demands(); r.Stands(p) {
		in.PodShapes = wire.FromPodShapes(demands.PodShapes)
		if demands.Constraints != nil {
			in.NodeSelector = wire.FromLabels(demands.Constraints.NodeSelector)
			in.Tolerations = demands.Constraints.Tolerations
		}
	}
	return in
}

func (v *Views) remainingSeconds(r *ledger.Reservation) *float64 {
	if r.Duration == 0 || r.Waiting != nil {
		return nil
	}
	return new(v.secondsTo(r.Until))
}

func (v *Views) secondsTo(at time.Time) float64 { return max(at.Sub(v.s.Now()), 0).Seconds() }

// noticeOf returns the notice for both sides of a placement that has to make room or was recalled;
// nil for any other placement. If both apply, it returns the one that ends first.
func (v *Views) noticeOf(r *ledger.Reservation, p *ledger.Placement) *v1.Notice {
	if n := v.recallNotice(r, p); n != nil {
		return n
	}
	if r.Notice == nil || p == nil || r.Notice.Placement != p.Number {
		return nil
	}
	return &v1.Notice{
		Reason: v1.NoticeReasonPreempted, Priority: r.Notice.Priority,
		RemainingSeconds: v.secondsTo(r.Notice.Ends), Message: v.s.NoticeMessage(r),
	}
}

// recallNotice returns the notice about the recall of a placement, for both of its sides. It
// returns nil if the placement is not recalled, or if a reservation with a higher priority needs
// the room before the recalled placement must end.
func (v *Views) recallNotice(r *ledger.Reservation, p *ledger.Placement) *v1.Notice {
	c := r.CalledBack()
	if c == nil || p == nil || c.Placement != p.Number || r.Notice != nil && r.Notice.Ends.Before(c.Ends) {
		return nil
	}
	return &v1.Notice{
		Reason: v1.NoticeReasonRecalled, RemainingSeconds: v.secondsTo(c.Ends), Message: v.recallMessage(r),
	}
}

// connectBy returns the time by which the node of a placement must be Ready, if the network for it is
// still being set up. It returns zero for any other placement, and for one that no longer stands.
func (v *Views) connectBy(r *ledger.Reservation, p *ledger.Placement) time.Time {
	if !r.Stands(p) || !p.IsConnecting() {
		return time.Time{}
	}
	return v.s.Book().ConnectBy(r, p, v.s.Timeouts().Placement)
}

// RequestNews tells a requester the phase of its own reservation if the reservation waits or never
// had a placement, because no instruction shows the phase of such a reservation. It returns nil
// for other reservations.
func RequestNews(clusterID string, r *ledger.Reservation) *v1.RequestNews {
	if r.Requester != clusterID || r.RequestKey() == "" || r.Waiting == nil && len(r.Placements) > 0 {
		return nil
	}
	return &v1.RequestNews{Reservation: r.Name, Key: r.RequestKey(), Phase: v1.RequestNewsPhase(r.Phase())}
}

// VoidInstruction returns the Ended instruction for a placement that a requester claimed and that no
// provider knows.
func VoidInstruction(requester string, ref ledger.PlacementRef) v1.Instruction {
	return v1.Instruction{
		Reservation: ref.Name, Placement: ref.Placement, Role: v1.InstructionRoleConsumer,
		State: v1.InstructionStateEnded, ConsumerID: requester, Resources: v1.Amounts{},
	}
}
