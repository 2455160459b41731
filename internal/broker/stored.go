package broker

import (
	"context"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// periodsCheck is how often the broker looks for periods and batches to store.
const periodsCheck = time.Minute

// AccountsRetention says how long the accounts of ended periods are kept.
type AccountsRetention = archive.Retention

// keepStored stores the periods of the accounts that have ended, and the full batches of the history,
// until ctx ends.
func (s *session) keepStored(ctx context.Context) {
	ticker := time.NewTicker(periodsCheck)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.archive.StorePeriods(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "storing ended periods of the accounts failed, retrying")
		}
		if err := s.archive.StoreBatches(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "storing the history of ended reservations failed, retrying")
		}
	}
}

// keepHeads stores signed heads of the journal until ctx ends. It does nothing in a broker that signs
// nothing.
func (s *session) keepHeads(ctx context.Context) {
	if s.b.receipts.signer != nil {
		s.archive.KeepHeads(ctx, s.log, s.journal.Anchor, s.b.SignHead, s.b.opts.Journal.Retention())
	}
}

// Settled implements archive.Session.
func (s *session) Settled(read func(*replay.Book) error) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	// New records could hide from the recovery that the journal was restored.
	if s.b.session != s || s.now().Before(s.began.Add(recovery.ListenGrace)) || s.recovery.IsRecovering() {
		return nil
	}
	return read(s.whole)
}

// Owned implements archive.Session.
func (s *session) Owned() (*journal.Commit, error) {
	if s.last == nil {
		if err := s.record(ledger.Event{Change: &ledger.Observe{}}); err != nil {
			return nil, err
		}
	}
	return s.last, nil
}

// Commit implements archive.Session.
func (s *session) Commit(ctx context.Context, change ledger.Change) error {
	return s.b.commitPlan(ctx, func(now *session) error {
		if now != s {
			return errUnavailable()
		}
		return s.record(ledger.Event{Change: change})
	})
}

// Retention implements archive.Session.
func (s *session) Retention() archive.Retention {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	return s.b.config.Accounts
}

// BatchSize implements archive.Session.
func (s *session) BatchSize() int { return s.b.batch }

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
