package broker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/ledger"
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
		err := b.change(context.WithoutCancel(ctx), func(t *term) error {
			n := t.newsOf(clusterID)
			list = t.instructions(clusterID, n, t.position(cursor))
			changed, ended = n.changed, b.ended
			return nil
		})
		if err != nil || len(list.Instructions) > 0 {
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

// position that a cursor stands for, 0 where it says nothing about this journal.
func (t *term) position(cursor string) uint64 {
	id, text, ok := strings.Cut(cursor, ":")
	position, err := strconv.ParseUint(text, 10, 64)
	if !ok || err != nil || id != t.journal.ID() || position > t.state.Position() {
		return 0
	}
	return position
}

func (t *term) instructions(clusterID string, n *news, after uint64) *v1.InstructionList {
	list := &v1.InstructionList{
		Cursor:       fmt.Sprintf("%s:%d", t.journal.ID(), t.state.Position()),
		Instructions: []v1.Instruction{},
	}
	for _, r := range n.since(after, t.state) {
		for i := range r.Placements {
			p := &r.Placements[i]
			if p.Provider == clusterID {
				list.Instructions = append(list.Instructions, t.instruction(r, p, v1.InstructionRoleProvider))
			}
			if r.Requester == clusterID {
				list.Instructions = append(list.Instructions, t.instruction(r, p, v1.InstructionRoleConsumer))
			}
		}
	}
	return list
}

func (t *term) instruction(r *ledger.Reservation, p *ledger.Placement, role v1.InstructionRole) v1.Instruction {
	in := v1.Instruction{
		Reservation:      r.Name,
		Placement:        p.Number,
		Role:             role,
		State:            v1.InstructionState(t.state.Instruction(r, p)),
		Acknowledged:     !p.AcknowledgedAt.IsZero(),
		ConsumerID:       r.Requester,
		ProviderID:       p.Provider,
		ProviderEndpoint: t.state.Cluster(p.Provider).Endpoint,
		Resources:        wire.FromAmounts(r.Amounts),
		RemainingSeconds: t.remaining(r),
	}
	if role == v1.InstructionRoleConsumer && r.Object == nil {
		in.Key = r.Key
	}
	return in
}

// remaining seconds of a reservation with a duration, nil for one that is renewed.
func (t *term) remaining(r *ledger.Reservation) *float64 {
	if r.Duration == 0 {
		return nil
	}
	left := max(r.Until.Sub(t.now()), 0).Seconds()
	return &left
}
