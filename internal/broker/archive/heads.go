package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

const (
	// headsCheck is how often the broker checks whether the head of the journal needs a signature.
	headsCheck = time.Minute
	// headsEvery is the shortest time between two signatures, except after a change of leader.
	headsEvery = 10 * time.Minute
	// HeadsKept is the number of signed heads that are kept for the retention of the journal, at equal
	// distances, beside the newest one.
	HeadsKept = 24
)

// KeepHeads stores signed heads of the journal, which exports can contain, until ctx ends. head returns
// the newest stored position, and sign signs a position or returns nil and logs the reason.
func (a *Archive) KeepHeads(ctx context.Context, log logr.Logger, head func() journal.Anchor, sign func(journal.Place) *brokerv1alpha1.Receipt, keep time.Duration) {
	var stored journal.Anchor
	for range term.Every(ctx, headsCheck) {
		now, head := a.session.Now(), head()
		if head.Hash == stored.Hash || now.Sub(stored.At).Abs() < headsEvery {
			continue
		}
		if err := a.storeHead(ctx, head, sign, keep); err != nil {
			log.Error(err, "storing a signed head of the journal failed, retrying")
			continue
		}
		stored = head
		stored.At = now
	}
}

func (a *Archive) storeHead(ctx context.Context, head journal.Anchor, sign func(journal.Place) *brokerv1alpha1.Receipt, keep time.Duration) error {
	signed := sign(journal.Place{Journal: head.Journal, Position: head.Position, Hash: head.Hash})
	if signed == nil {
		return nil // sign has logged the reason
	}
	obj, err := replay.PackHead(a.name, head.Position, signed)
	if err != nil {
		return err
	}
	if err := a.putObject(ctx, obj); err != nil {
		return fmt.Errorf("storing the signed head at position %d: %w", head.Position, err)
	}
	return replay.DropHeads(ctx, a.store, a.name, keep, HeadsKept)
}
