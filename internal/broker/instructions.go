package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// FetchInstructions implements the server's Broker. A cursor of another journal,
// or one that lies ahead of this one, is answered from the beginning.
func (b *Broker) FetchInstructions(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		var list *v1.InstructionList
		var changed, ended <-chan struct{}
		err := b.change(context.WithoutCancel(ctx), func(t *session) error {
			n := t.newsOf(clusterID)
			t.recovery.witness(clusterID, cursor)
			t.noteFetch(clusterID)
			_, after := readCursor(cursor, t.book)
			list = t.instructions(clusterID, n, after)
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

// noteFetch has the time that a provider has to acknowledge begin when it can know of
// what it was given in an earlier term.
func (t *session) noteFetch(clusterID string) {
	p := t.clusters.of(clusterID)
	if !p.fetched.IsZero() {
		return
	}
	p.fetched = t.now()
	for _, r := range t.concerned(clusterID) {
		t.deadlines.reschedule(r)
	}
}

// pageOfInstructions ends an answer: an agent that is told of many reservations asks again
// with the cursor that it got. A reservation is told of as a whole.
const pageOfInstructions = 512

func (t *session) instructions(clusterID string, n *news, after uint64) *v1.InstructionList {
	list := &v1.InstructionList{
		Cursor:       t.cursor(),
		Announce:     t.recovery.wantsAnnouncement(clusterID),
		Instructions: []v1.Instruction{},
	}
	if after == 0 {
		list.Instructions = append(list.Instructions, t.voided(clusterID)...)
	}
	for _, r := range n.since(after, t.book) {
		if len(list.Instructions)+len(list.Requests) >= pageOfInstructions {
			break
		}
		list.Cursor = t.cursorAt(r.Changed)
		if news := t.requestNews(clusterID, r); news != nil {
			list.Requests = append(list.Requests, *news)
		}
		for i := range r.Placements {
			p := &r.Placements[i]
			if p.Provider == clusterID {
				list.Instructions = append(list.Instructions, t.instruction(r, p, v1.InstructionRoleProvider))
			}
			if r.Requester == clusterID && !r.Unclaimed {
				list.Instructions = append(list.Instructions, t.instruction(r, p, v1.InstructionRoleConsumer))
			}
		}
	}
	if len(list.Instructions)+len(list.Requests) < pageOfInstructions {
		list.Cursor = t.cursor()
	}
	return list
}

// requestNews tells of a request that no instruction speaks of.
func (t *session) requestNews(clusterID string, r *ledger.Reservation) *v1.RequestNews {
	if r.Requester != clusterID || r.RequestKey() == "" || r.Waiting == nil && len(r.Placements) > 0 {
		return nil
	}
	return &v1.RequestNews{Reservation: r.Name, Key: r.RequestKey(), Phase: v1.RequestNewsPhase(t.book.Phase(r))}
}

// voided ends what the cluster claimed as a requester and no provider has.
func (t *session) voided(clusterID string) []v1.Instruction {
	var out []v1.Instruction
	for _, ref := range t.recovery.void[clusterID] {
		out = append(out, v1.Instruction{
			Reservation: ref.Name, Placement: ref.Placement, Role: v1.InstructionRoleConsumer,
			State: v1.InstructionStateEnded, ConsumerID: clusterID, Resources: v1.Amounts{},
		})
	}
	return out
}

func (t *session) instruction(r *ledger.Reservation, p *ledger.Placement, role v1.InstructionRole) v1.Instruction {
	in := v1.Instruction{
		Reservation:      r.Name,
		Placement:        p.Number,
		Role:             role,
		State:            v1.InstructionState(t.book.Instruction(r, p)),
		Acknowledged:     !p.AcknowledgedAt.IsZero(),
		ConsumerID:       r.Requester,
		ProviderID:       p.Provider,
		ProviderEndpoint: t.book.Cluster(p.Provider).Endpoint,
		Resources:        wire.FromAmounts(r.AgreedWith(p)),
		RemainingSeconds: t.remaining(r),
		Notice:           t.preemption.notice(r, p),
	}
	if role == v1.InstructionRoleConsumer {
		in.Key, in.Unattended = r.RequestKey(), !t.book.HasAgent(p.Provider)
		if since := t.book.Cluster(p.Provider).LostSince; !since.IsZero() && r.Stands(p) {
			silent := t.now().Sub(since).Seconds()
			in.ProviderSilentSeconds = &silent
		}
		if x := p.Excess; x != nil {
			in.Excess = &v1.Excess{Pods: x.Pods, Resources: wire.FromAmounts(x.Amounts)}
		}
	} else if asked := r.AskedOf(p); asked != nil {
		in.Resources, in.Change = wire.FromAmounts(asked.Amounts), asked.Generation
	}
	return in
}

// remaining seconds of a reservation with a duration, nil for one that is renewed.
func (t *session) remaining(r *ledger.Reservation) *float64 {
	if r.Duration == 0 || r.Waiting != nil {
		return nil
	}
	left := max(r.Until.Sub(t.now()), 0).Seconds()
	return &left
}
