package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/history"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

const (
	// defaultBatch is the number of ended reservations in one stored batch. Checkpoints contain those
	// that are not in a batch yet, about that many at most. Replicas with different numbers could
	// replace each other's batches, so a version with another number must not run beside this one.
	defaultBatch = 500
	// keptBatches is the number of batches that are kept: the last 20,000 ended reservations.
	keptBatches = 40
)

// storeBatches stores the full batches of the history, and records each of them in the journal. If
// the broker stops after it has stored a batch and before it has recorded the batch, the batch is
// stored again, with the same content.
func (s *session) storeBatches(ctx context.Context) error {
	for {
		next, events, err := s.nextBatch()
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
		objects, err := replay.PackBatch(JournalName, s.journal.ID(), next.Number, text)
		if err != nil {
			return err
		}
		for _, obj := range objects {
			if err := s.putObject(ctx, obj); err != nil {
				return fmt.Errorf("storing batch %d: %w", next.Number, err)
			}
		}
		closed := &ledger.CloseBatch{Batch: next.Number, Rows: len(next.Rows), Hash: history.Hash(text)}
		if next.Number > keptBatches {
			closed.KeptFrom = next.Number - keptBatches + 1
		}
		err = s.b.commitPlan(ctx, func(now *session) error {
			if now != s {
				return errUnavailable()
			}
			return s.record(ledger.Event{Change: closed})
		})
		if err != nil {
			return fmt.Errorf("closing batch %d: %w", next.Number, err)
		}
		if err := s.dropBatches(ctx, closed.KeptFrom); err != nil {
			return err
		}
	}
}

// nextBatch returns the next full batch, nil if there is none, and the commit of the last event on
// which its rows depend.
func (s *session) nextBatch() (*history.Batch, *journal.Commit, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if !s.mayStore() {
		return nil, nil, nil
	}
	next, found := s.whole.History.Next(s.b.batch)
	if !found {
		return nil, nil, nil
	}
	owned, err := s.proveOwned()
	return &next, owned, err
}

// dropBatches deletes this journal's stored batches with numbers below oldest, and all batches of former
// journals. It deletes nothing if oldest is 0, which it is as long as this journal has at most
// keptBatches batches. The caller must just have recorded oldest in the journal, which proves that this
// replica leads.
func (s *session) dropBatches(ctx context.Context, oldest uint64) error {
	if oldest == 0 {
		return nil
	}
	stored, err := s.b.opts.Store.List(ctx, replay.HistoryLabels())
	if err != nil {
		return fmt.Errorf("listing stored batches of the history: %w", err)
	}
	first := replay.BatchObject(JournalName, s.journal.ID(), oldest, 0)
	own := strings.TrimSuffix(first, history.Name(oldest)+"-0")
	for _, obj := range stored {
		if strings.HasPrefix(obj.Name, own) && obj.Name >= first {
			continue
		}
		if err := s.b.opts.Store.Delete(ctx, obj.Name); err != nil && !errors.Is(err, journal.ErrNotFound) {
			return fmt.Errorf("deleting a stored batch of the history: %w", err)
		}
	}
	return nil
}
