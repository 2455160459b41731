package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
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
			s.Recovery.NoteCursor(clusterID, cursor)
			s.noteFetch(clusterID)
			after := recovery.PositionOf(cursor, s.book)
			list = s.listInstructions(clusterID, after)
			changed, ended = s.News.Changed(clusterID), b.ended
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

func (s *session) listInstructions(clusterID string, after uint64) *unsignedList {
	list := &unsignedList{s: s, InstructionList: &v1.InstructionList{
		Cursor:       s.newestCursor(),
		Announce:     s.Recovery.WantsAnnouncement(clusterID),
		Instructions: []v1.Instruction{},
	}}
	if after == 0 {
		for _, in := range s.voidedInstructions(clusterID) {
			list.addInstruction(in, nil, nil)
		}
	}
	for _, r := range s.ChangedSince(clusterID, after) {
		if len(list.Instructions)+len(list.Requests) >= pageOfInstructions {
			break
		}
		list.Cursor = s.cursorAt(r.Changed)
		if request := s.requestNews(clusterID, r); request != nil {
			list.Requests = append(list.Requests, *request)
		}
		for i := range r.Placements {
			p := &r.Placements[i]
			if p.Provider == clusterID {
				list.addInstruction(s.InstructionFor(r, p, v1.InstructionRoleProvider), r, p)
			}
			if r.Requester == clusterID && !r.Unclaimed {
				list.addInstruction(s.InstructionFor(r, p, v1.InstructionRoleConsumer), r, p)
			}
		}
	}
	if len(list.Instructions)+len(list.Requests) < pageOfInstructions {
		list.Cursor = s.newestCursor()
	}
	return list
}

// requestNews tells a requester the phase of its own reservation if the reservation waits or never
// had a placement, because no instruction shows the phase of such a reservation. It returns nil
// for other reservations.
func (s *session) requestNews(clusterID string, r *ledger.Reservation) *v1.RequestNews {
	if r.Requester != clusterID || r.RequestKey() == "" || r.Waiting == nil && len(r.Placements) > 0 {
		return nil
	}
	return &v1.RequestNews{Reservation: r.Name, Key: r.RequestKey(), Phase: v1.RequestNewsPhase(r.Phase())}
}

// voidedInstructions returns Ended instructions for the placements that a requester claimed and
// that no provider knows.
func (s *session) voidedInstructions(clusterID string) []v1.Instruction {
	var out []v1.Instruction
	for _, ref := range s.Recovery.Void(clusterID) {
		out = append(out, v1.Instruction{
			Reservation: ref.Name, Placement: ref.Placement, Role: v1.InstructionRoleConsumer,
			State: v1.InstructionStateEnded, ConsumerID: clusterID, Resources: v1.Amounts{},
		})
	}
	return out
}
