package archive

import (
	"context"
	"fmt"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/history"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

const (
	// DefaultBatch is the number of ended reservations in one stored batch. Checkpoints contain those
	// that are not in a batch yet, about that many at most. Replicas with different numbers could
	// replace each other's batches, so a version with another number must not run beside this one.
	DefaultBatch = 500
	// KeptBatches is the number of batches that are kept: the last 20,000 ended reservations.
	KeptBatches = 40
)

// StoreBatches stores the full batches of the history, and records each of them in the journal. If
// the broker stops after it has stored a batch and before it has recorded the batch, the batch is
// stored again, with the same content.
func (a *Archive) StoreBatches(ctx context.Context) error {
	a.storing.Lock()
	defer a.storing.Unlock()
	for {
		next, events, err := a.nextBatch()
		if next == nil || err != nil {
			return err
		}
		// Wait until the events are stored: every later leader then computes the same rows.
		if err := events.Wait(ctx); err != nil {
			return fmt.Errorf("waiting for the events of batch %d: %w", next.Number, err)
		}
		text, err := next.Encode()
		if err != nil {
			return err
		}
		objects, err := replay.PackBatch(a.name, a.id, next.Number, text)
		if err == nil {
			err = a.putObjects(ctx, objects)
		}
		if err != nil {
			return fmt.Errorf("storing batch %d: %w", next.Number, err)
		}
		closed := &ledger.CloseBatch{Batch: next.Number, Rows: len(next.Rows), Hash: history.Hash(text)}
		if next.Number > KeptBatches {
			closed.KeptFrom = next.Number - KeptBatches + 1
		}
		if err := a.session.Commit(ctx, closed); err != nil {
			return fmt.Errorf("closing batch %d: %w", next.Number, err)
		}
		if err := a.dropBatches(ctx, closed.KeptFrom); err != nil {
			return err
		}
	}
}

// nextBatch returns the next full batch, nil if there is none, and the commit of the last event on
// which its rows depend.
func (a *Archive) nextBatch() (next *history.Batch, events *journal.Commit, err error) {
	err = a.session.Settled(func(book *replay.Book) error {
		batch, found := book.History.Next(a.session.BatchSize())
		if !found {
			return nil
		}
		next = &batch
		events, err = a.session.Owned()
		return err
	})
	return next, events, err
}

// dropBatches deletes this journal's stored batches with numbers below oldest, and all batches of former
// journals. It deletes nothing if oldest is 0, which it is as long as this journal has at most
// KeptBatches batches. The caller must just have recorded oldest in the journal, which proves that this
// replica leads.
func (a *Archive) dropBatches(ctx context.Context, oldest uint64) error {
	if oldest == 0 {
		return nil
	}
	first := replay.BatchObject(a.name, a.id, oldest, 0)
	own := strings.TrimSuffix(first, history.Name(oldest)+"-0")
	err := a.dropObjects(ctx, replay.HistoryLabels(), func(object string) bool { return strings.HasPrefix(object, own) && object >= first })
	if err != nil {
		return fmt.Errorf("deleting stored batches of the history: %w", err)
	}
	return nil
}
