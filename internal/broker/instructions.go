package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// FetchInstructions implements the server's Broker: it returns the instructions that changed after
// the cursor. If there are none, it waits for a change until the time wait is over or ctx ends. If
// the cursor belongs to another journal or is ahead of this one, it returns all instructions.
func (b *Broker) FetchInstructions(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		var list *unsignedList
		var changed, ended <-chan struct{}
		err := b.commitPlan(context.WithoutCancel(ctx), func(s *session) error {
			n := s.news.logOf(clusterID)
			s.recovery.NoteCursor(clusterID, cursor)
			s.news.noteFetch(clusterID)
			after := recovery.PositionOf(cursor, s.book)
			list = s.news.listInstructions(clusterID, n, after)
			changed, ended = n.changed, b.ended
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(list.Instructions)+len(list.Requests) > 0 || list.Announce {
			return b.signList(list), nil
		}
		select {
		case <-changed:
		case <-ended:
		case <-ctx.Done():
			return b.signList(list), nil
		}
	}
}

// noteFetch notes that a provider has fetched its instructions in this term. From then on, the
// usual deadline for acknowledging applies to those of its placements that were granted in an
// earlier term.
func (ns *news) noteFetch(clusterID string) {
	p := ns.s.clusters.presenceOf(clusterID)
	if !p.fetched.IsZero() {
		return
	}
	p.fetched = ns.s.now()
	for _, r := range ns.reservationsOf(clusterID) {
		ns.s.deadlines.rescheduleReservation(r)
	}
}

// pageOfInstructions is the number of instructions after which an answer ends and the agent has to
// ask again with the new cursor. An answer contains all instructions of a reservation or none.
const pageOfInstructions = 512

func (ns *news) listInstructions(clusterID string, n *newsLog, after uint64) *unsignedList {
	list := &unsignedList{s: ns.s, InstructionList: &v1.InstructionList{
		Cursor:       ns.s.newestCursor(),
		Announce:     ns.s.recovery.WantsAnnouncement(clusterID),
		Instructions: []v1.Instruction{},
	}}
	if after == 0 {
		for _, in := range ns.voidedInstructions(clusterID) {
			list.addInstruction(in, nil, nil)
		}
	}
	for _, r := range n.changedSince(after, ns.s.book) {
		if len(list.Instructions)+len(list.Requests) >= pageOfInstructions {
			break
		}
		list.Cursor = ns.s.cursorAt(r.Changed)
		if request := ns.requestNews(clusterID, r); request != nil {
			list.Requests = append(list.Requests, *request)
		}
		for i := range r.Placements {
			p := &r.Placements[i]
			if p.Provider == clusterID {
				list.addInstruction(ns.instructionFor(r, p, v1.InstructionRoleProvider), r, p)
			}
			if r.Requester == clusterID && !r.Unclaimed {
				list.addInstruction(ns.instructionFor(r, p, v1.InstructionRoleConsumer), r, p)
			}
		}
	}
	if len(list.Instructions)+len(list.Requests) < pageOfInstructions {
		list.Cursor = ns.s.newestCursor()
	}
	return list
}

// requestNews tells a requester the phase of its own reservation if the reservation waits or never
// had a placement, because no instruction shows the phase of such a reservation. It returns nil
// for other reservations.
func (ns *news) requestNews(clusterID string, r *ledger.Reservation) *v1.RequestNews {
	if r.Requester != clusterID || r.RequestKey() == "" || r.Waiting == nil && len(r.Placements) > 0 {
		return nil
	}
	return &v1.RequestNews{Reservation: r.Name, Key: r.RequestKey(), Phase: v1.RequestNewsPhase(r.Phase())}
}

// voidedInstructions returns Ended instructions for the placements that a requester claimed and
// that no provider knows.
func (ns *news) voidedInstructions(clusterID string) []v1.Instruction {
	var out []v1.Instruction
	for _, ref := range ns.s.recovery.Void(clusterID) {
		out = append(out, v1.Instruction{
			Reservation: ref.Name, Placement: ref.Placement, Role: v1.InstructionRoleConsumer,
			State: v1.InstructionStateEnded, ConsumerID: clusterID, Resources: v1.Amounts{},
		})
	}
	return out
}

func (ns *news) instructionFor(r *ledger.Reservation, p *ledger.Placement, role v1.InstructionRole) v1.Instruction {
	in := v1.Instruction{
		Reservation:      r.Name,
		Placement:        p.Number,
		Role:             role,
		State:            v1.InstructionState(r.Instruction(p)),
		Acknowledged:     !p.AcknowledgedAt.IsZero(),
		ConsumerID:       r.Requester,
		ProviderID:       p.Provider,
		ProviderEndpoint: ns.s.book.Cluster(p.Provider).Endpoint,
		Resources:        wire.FromAmounts(r.AgreedWith(p)),
		RemainingSeconds: ns.remainingSeconds(r),
		Notice:           ns.s.preemption.noticeOf(r, p),
	}
	if role == v1.InstructionRoleConsumer {
		in.Key, in.Unattended, in.Reason = r.RequestKey(), !ns.s.book.HasAgent(p.Provider), p.Withdrawn
		in.Cost = showCost(r)
		if since := ns.s.book.Cluster(p.Provider).LostSince; !since.IsZero() && r.Stands(p) {
			silent := ns.s.now().Sub(since).Seconds()
			in.ProviderSilentSeconds = &silent
		}
		if by := ns.s.connectBy(r, p); !by.IsZero() {
			left := max(by.Sub(ns.s.now()), 0).Seconds()
			in.ConnectSeconds = &left
		}
		if at := ns.s.healing.MovesAt(r, p); !at.IsZero() {
			left := max(at.Sub(ns.s.now()), 0).Seconds()
			in.MoveSeconds = &left
		}
		in.Idle = ns.s.idles.TimeOf(r, p)
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

// remainingSeconds returns for how many seconds a reservation is still held, nil if it waits or has
// no duration.
func (ns *news) remainingSeconds(r *ledger.Reservation) *float64 {
	if r.Duration == 0 || r.Waiting != nil {
		return nil
	}
	left := max(r.Until.Sub(ns.s.now()), 0).Seconds()
	return &left
}
