package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/receipts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

// FetchInstructions implements the server's Broker: it returns the instructions that changed after
// the cursor. If there are none, it waits for a change until the time wait is over or ctx ends. If
// the cursor belongs to another journal or is ahead of this one, it returns all instructions.
func (b *Broker) FetchInstructions(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.InstructionList, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		var list *v1.InstructionList
		var unsigned *receipts.Unsigned
		var changed, ended <-chan struct{}
		err := b.commitPlan(context.WithoutCancel(ctx), func(s *session) error {
			s.Recovery.NoteCursor(clusterID, cursor)
			s.noteFetch(clusterID)
			after := recovery.PositionOf(cursor, s.book)
			list, unsigned = s.listInstructions(clusterID, after)
			changed, ended = s.News.Changed(clusterID), b.ended
			return nil
		})
		if err != nil {
			return nil, err
		}
		sign := func() (*v1.InstructionList, error) {
			unsigned.Sign(func(i int) *v1.Instruction { return &list.Instructions[i] })
			return list, nil
		}
		if len(list.Instructions)+len(list.Requests) > 0 || list.Announce {
			return sign()
		}
		select {
		case <-changed:
		case <-ended:
		case <-ctx.Done():
			return sign()
		}
	}
}

// noteFetch notes that a provider has fetched its instructions in this term. From then on, the
// usual deadline for acknowledging applies to those of its placements that were granted in an
// earlier term.
func (s *session) noteFetch(clusterID string) {
	p := s.Presence(clusterID)
	if !p.Fetched.IsZero() {
		return
	}
	p.Fetched = s.Now()
	for _, r := range s.ReservationsOf(clusterID) {
		s.Reschedule(r)
	}
}

// pageOfInstructions is the number of instructions after which an answer ends and the agent has to
// ask again with the new cursor. An answer contains all instructions of a reservation or none.
const pageOfInstructions = 512

// listInstructions returns the instructions that changed after a position, and what to sign for them.
func (s *session) listInstructions(clusterID string, after uint64) (*v1.InstructionList, *receipts.Unsigned) {
	list := &v1.InstructionList{
		Cursor:       s.CursorAt(s.book.Position()),
		Announce:     s.Recovery.WantsAnnouncement(clusterID),
		Instructions: []v1.Instruction{},
	}
	unsigned := s.b.receipts.NewUnsigned(s.journal)
	add := func(in v1.Instruction, r *ledger.Reservation, p *ledger.Placement) {
		list.Instructions = append(list.Instructions, in)
		unsigned.Add(r, p)
	}
	if after == 0 {
		for _, ref := range s.VoidPlacements(clusterID) {
			add(views.VoidInstruction(clusterID, ref), nil, nil)
		}
	}
	for _, r := range s.ChangedSince(clusterID, after) {
		if len(list.Instructions)+len(list.Requests) >= pageOfInstructions {
			break
		}
		list.Cursor = s.CursorAt(r.Changed)
		if request := views.RequestNews(clusterID, r); request != nil {
			list.Requests = append(list.Requests, *request)
		}
		for i := range r.Placements {
			p := &r.Placements[i]
			if p.Provider == clusterID {
				add(s.InstructionFor(r, p, v1.InstructionRoleProvider), r, p)
			}
			if r.Requester == clusterID && !r.Unclaimed {
				add(s.InstructionFor(r, p, v1.InstructionRoleConsumer), r, p)
			}
		}
	}
	if len(list.Instructions)+len(list.Requests) < pageOfInstructions {
		list.Cursor = s.CursorAt(s.book.Position())
	}
	return list, unsigned
}
