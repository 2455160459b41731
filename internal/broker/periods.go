package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	costs "github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

const (
	// periodsCheck is how often the broker looks for periods that have ended, to store them.
	periodsCheck = time.Minute
	// observeEvery is the time without events after which the broker records an Observe, as long as the accounts are
	// not empty. It is less than accounts.Gap, because the accounts treat a longer time without events as an outage of
	// the broker.
	observeEvery = 10 * time.Minute
)

// hoursKept is how long the accounts of ended hours are kept.
const hoursKept = 48 * time.Hour

// oldestKept returns the time back to which the stored periods of a span are kept. Those that ended
// before it are deleted.
func (r AccountsRetention) oldestKept(span costs.Span, now time.Time) time.Time {
	switch span {
	case costs.Month:
		return now.AddDate(0, -r.Months, 0)
	case costs.Day:
		return now.AddDate(0, 0, -r.Days)
	}
	return now.Add(-hoursKept)
}

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
		if err := s.storePeriods(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "storing ended periods of the accounts failed, retrying")
		}
		if err := s.storeBatches(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(err, "storing the history of ended reservations failed, retrying")
		}
	}
}

// storePeriods stores the periods that have ended, and records each of them in the journal. If the
// broker stops after it has stored a period and before it has recorded the period, the period is
// stored again, with the same content.
func (s *session) storePeriods(ctx context.Context) error {
	for {
		next, events, err := s.nextEnded()
		if next == nil || err != nil {
			return err
		}
		// Wait until the events are stored: every later leader then computes the same rows.
		if err := events.Wait(ctx); err != nil {
			return fmt.Errorf("waiting for the events of the period %s: %w", next.Name(), err)
		}
		text, err := next.Encode()
		if err != nil {
			return err
		}
		if err := s.putPeriod(ctx, next, text); err != nil {
			return err
		}
		oldest := costs.Period{Span: next.Span, Start: s.b.retention().oldestKept(next.Span, s.b.opts.Now().UTC())}
		err = s.b.commitPlan(ctx, func(now *session) error {
			if now != s {
				return errUnavailable()
			}
			return s.record(ledger.Event{Change: &ledger.ClosePeriod{Period: next.Name(), Hash: costs.Hash(text), KeptFrom: oldest.Name()}})
		})
		if err != nil {
			return fmt.Errorf("closing the period %s: %w", next.Name(), err)
		}
		if err := s.dropPeriods(ctx, &oldest); err != nil {
			return err
		}
	}
}

// nextEnded returns the oldest period that has ended, nil if there is none, and the commit of the
// last event on which its rows depend. If there has been no event for observeEvery and the accounts
// are not empty, it first records an Observe.
func (s *session) nextEnded() (*costs.Period, *journal.Commit, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if !s.mayStore() {
		return nil, nil, nil
	}
	if !s.whole.Costs.IsEmpty() && s.now().Sub(s.book.Latest()) >= observeEvery {
		if err := s.record(ledger.Event{Change: &ledger.Observe{}}); err != nil {
			return nil, nil, err
		}
	}
	next, found := s.whole.Costs.NextEnded()
	if !found {
		return nil, nil, nil
	}
	owned, err := s.proveOwned()
	return &next, owned, err
}

// mayStore reports whether periods and batches may be stored and recorded now. The caller holds mu.
func (s *session) mayStore() bool {
	// New records could hide from the recovery that the journal was restored.
	return s.b.session == s && !s.now().Before(s.began.Add(listenGrace)) && !s.recovery.isRecovering()
}

// proveOwned returns the last commit of this term. Once it is durable, this replica owns the journal,
// and every later leader knows the same events. The caller holds mu.
func (s *session) proveOwned() (*journal.Commit, error) {
	if s.last == nil {
		if err := s.record(ledger.Event{Change: &ledger.Observe{}}); err != nil {
			return nil, err
		}
	}
	return s.last, nil
}

// putPeriod stores the rows of a period in one or more objects.
func (s *session) putPeriod(ctx context.Context, p *costs.Period, text []byte) error {
	objects, err := replay.PackPeriod(JournalName, p, text)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := s.putObject(ctx, obj); err != nil {
			return fmt.Errorf("storing the period %s: %w", p.Name(), err)
		}
	}
	return nil
}

// putObject creates an object. It replaces an object of the same name with other content, which a
// replica wrote whose records were lost.
func (s *session) putObject(ctx context.Context, obj journal.Object) error {
	_, err := s.b.opts.Store.Create(ctx, obj)
	if !errors.Is(err, journal.ErrExists) {
		return err
	}
	known, err := s.b.opts.Store.Get(ctx, obj.Name)
	if err != nil {
		return err
	}
	if replay.IsSamePart(known, obj) {
		return nil
	}
	if err := s.b.opts.Store.Delete(ctx, obj.Name); err != nil {
		return err
	}
	_, err = s.b.opts.Store.Create(ctx, obj)
	return err
}

// retention returns how long the current configuration keeps the accounts.
func (b *Broker) retention() AccountsRetention {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.config.Accounts
}

// dropPeriods deletes the stored periods of a span that are older than oldest. It compares their
// names. The caller must just have recorded the oldest kept period in the journal, which proves
// that this replica leads.
func (s *session) dropPeriods(ctx context.Context, oldest *costs.Period) error {
	stored, err := s.b.opts.Store.List(ctx, replay.PeriodLabels(oldest.Span))
	if err != nil {
		return fmt.Errorf("listing stored periods: %w", err)
	}
	first := replay.PeriodObject(JournalName, oldest.Name(), 0)
	for _, obj := range stored {
		if obj.Name < first {
			if err := s.b.opts.Store.Delete(ctx, obj.Name); err != nil && !errors.Is(err, journal.ErrNotFound) {
				return fmt.Errorf("deleting a stored period: %w", err)
			}
		}
	}
	return nil
}
