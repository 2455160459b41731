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
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// periodsCheck is how often the broker looks for periods and batches to store.
const periodsCheck = time.Minute

func (s *session) keepStored(ctx context.Context) {
	for range term.Every(ctx, periodsCheck) {
		if err := s.Archive.StorePeriods(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "storing ended periods of the accounts failed, retrying")
		}
		if err := s.Archive.StoreBatches(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "storing the history of ended reservations failed, retrying")
		}
	}
}

// keepHeads stores signed heads of the journal until ctx ends. It does nothing in a broker that signs
// nothing.
func (s *session) keepHeads(ctx context.Context) {
	if s.b.receipts.Signs() {
		s.Archive.KeepHeads(ctx, s.log, s.journal.Anchor, s.b.receipts.SignHead, s.b.opts.Journal.Retention())
	}
}

// Settled implements archive.Session.
func (s *session) Settled(read func(*replay.Book) error) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	// New records could hide from the recovery that the journal was restored.
	if s.b.session != s || s.Now().Before(s.began.Add(recovery.ListenGrace)) || s.Recovery.IsRecovering() {
		return nil
	}
	return read(s.whole)
}

// Owned implements archive.Session.
func (s *session) Owned() (*journal.Commit, error) {
	if s.last == nil {
		if err := s.Record(ledger.Event{Change: &ledger.Observe{}}); err != nil {
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
		return s.Record(ledger.Event{Change: change})
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

// SignHead signs a head of the journal, see receipts.Signer.
func (b *Broker) SignHead(at journal.Place) *brokerv1alpha1.Receipt { return b.receipts.SignHead(at) }
