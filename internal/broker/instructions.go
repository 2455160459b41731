package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// FetchInstructions implements the server's Broker. For a cursor of another journal, or one
// ahead of this journal, the answer starts from the beginning.
func (b *Broker) FetchInstructions(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		var list *v1.InstructionList
		var changed, ended <-chan struct{}
		err := b.commitPlan(context.WithoutCancel(ctx), func(s *session) error {
			n := s.news.logOf(clusterID)
			s.recovery.noteCursor(clusterID, cursor)
			s.news.noteFetch(clusterID)
			_, after := readCursor(cursor, s.book)
			list = s.news.listInstructions(clusterID, n, after)
			changed, ended = n.changed, b.ended
			return nil
		})
		if err != nil || len(list.Instructions)+len(list.Requests) > 0 || list.Announce {
			return list, err
		}
		select {
		case <-changed:
		case <-ended:
		case <-ctx.Done():
			return list, nil
		}
	}
}

// noteFetch notes that a provider asks for its instructions. From then on the usual deadline
// for acknowledging placements of an earlier term applies.
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

// pageOfInstructions is how many instructions an answer holds before the agent has to ask
// again with the new cursor. A reservation is never split between answers.
const pageOfInstructions = 512

func (ns *news) listInstructions(clusterID string, n *newsLog, after uint64) *v1.InstructionList {
	list := &v1.InstructionList{
		Cursor:       ns.s.newestCursor(),
		Announce:     ns.s.recovery.wantsAnnouncement(clusterID),
		Instructions: []v1.Instruction{},
	}
	if after == 0 {
		list.Instructions = append(list.Instructions, ns.voidedInstructions(clusterID)...)
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
				list.Instructions = append(list.Instructions, ns.instructionFor(r, p, v1.InstructionRoleProvider))
			}
			if r.Requester == clusterID && !r.Unclaimed {
				list.Instructions = append(list.Instructions, ns.instructionFor(r, p, v1.InstructionRoleConsumer))
			}
		}
	}
	if len(list.Instructions)+len(list.Requests) < pageOfInstructions {
		list.Cursor = ns.s.newestCursor()
	}
	return list
}

// requestNews informs a requester about a reservation that has no instruction.
func (ns *news) requestNews(clusterID string, r *ledger.Reservation) *v1.RequestNews {
	if r.Requester != clusterID || r.RequestKey() == "" || r.Waiting == nil && len(r.Placements) > 0 {
		return nil
	}
	return &v1.RequestNews{Reservation: r.Name, Key: r.RequestKey(), Phase: v1.RequestNewsPhase(r.Phase())}
}

// voidedInstructions returns Ended instructions for placements that a requester claimed and no provider
// knows.
func (ns *news) voidedInstructions(clusterID string) []v1.Instruction {
	var out []v1.Instruction
	for _, ref := range ns.s.recovery.void[clusterID] {
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
		in.Key, in.Unattended = r.RequestKey(), !ns.s.book.HasAgent(p.Provider)
		if since := ns.s.book.Cluster(p.Provider).LostSince; !since.IsZero() && r.Stands(p) {
			silent := ns.s.now().Sub(since).Seconds()
			in.ProviderSilentSeconds = &silent
		}
		if by := ns.s.connectBy(r, p); !by.IsZero() {
			left := max(by.Sub(ns.s.now()), 0).Seconds()
			in.ConnectSeconds = &left
		}
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

// remainingSeconds returns the seconds left of a reservation with a duration, nil for one that is
// renewed.
func (ns *news) remainingSeconds(r *ledger.Reservation) *float64 {
	if r.Duration == 0 || r.Waiting != nil {
		return nil
	}
	left := max(r.Until.Sub(ns.s.now()), 0).Seconds()
	return &left
}
