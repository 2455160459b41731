package broker

import (
	"context"
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

const (
	// headsCheck is how often the broker checks whether the head of the journal needs a signature.
	headsCheck = time.Minute
	// headsEvery is the shortest time between two signatures, except after a change of leader.
	headsEvery = 10 * time.Minute
	// headsKept is the number of signed heads that are kept for the retention of the journal, at equal
	// distances, beside the newest one.
	headsKept = 24
)

// SignHead returns a signed head of the journal for the given place, nil if the broker signs nothing or its
// certificate cannot sign.
func (b *Broker) SignHead(at journal.Place) *brokerv1alpha1.Receipt {
	if b.receipts.signer == nil {
		return nil
	}
	now := b.opts.Now()
	signed, err := b.receipts.signer.SignHead(receipt.Place{ID: at.Journal, Position: at.Position, Hash: at.Hash}, now)
	b.receipts.noteOutcome(b, err, now)
	if err != nil {
		return nil
	}
	return signed
}

// keepHeads stores signed heads of the journal, which exports can contain, until ctx ends. It does nothing in
// a broker that signs nothing.
func (s *session) keepHeads(ctx context.Context) {
	if s.b.receipts.signer == nil {
		return
	}
	ticker := time.NewTicker(headsCheck)
	defer ticker.Stop()
	var stored journal.Anchor
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, head := s.now(), s.journal.Anchor()
		if head.Hash == stored.Hash || now.Before(stored.At.Add(headsEvery)) {
			continue
		}
		if err := s.storeHead(ctx, head); err != nil {
			s.log.Error(err, "storing a signed head of the journal failed, retrying")
			continue
		}
		stored = head
		stored.At = now
	}
}

// storeHead signs the head of the journal, stores it, and deletes stored heads that are no longer needed.
func (s *session) storeHead(ctx context.Context, head journal.Anchor) error {
	signed := s.b.SignHead(journal.Place{Journal: head.Journal, Position: head.Position, Hash: head.Hash})
	if signed == nil {
		return nil // SignHead has logged the reason
	}
	obj, err := replay.PackHead(JournalName, head.Position, signed)
	if err != nil {
		return err
	}
	if err := s.putObject(ctx, obj); err != nil {
		return fmt.Errorf("storing the signed head at position %d: %w", head.Position, err)
	}
	return replay.DropHeads(ctx, s.b.opts.Store, JournalName, s.b.opts.Journal.Retention(), headsKept)
}
