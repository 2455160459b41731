package archive

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

// observeEvery is the time without events after which the broker records an Observe, as long as the accounts are
// not empty. It is less than accounts.Gap, because the accounts treat a longer time without events as an outage of
// the broker.
const observeEvery = 10 * time.Minute

// hoursKept is how long the accounts of ended hours are kept.
const hoursKept = 48 * time.Hour

// Retention says how long the accounts of ended periods are kept: Days is for the accounts of days,
// Months for the accounts of months.
type Retention struct{ Days, Months int }

// oldestKept returns the time back to which the stored periods of a span are kept. Those that ended
// before it are deleted.
func (r Retention) oldestKept(span costs.Span, now time.Time) time.Time {
	switch span {
	case costs.Month:
		return now.AddDate(0, -r.Months, 0)
	case costs.Day:
		return now.AddDate(0, 0, -r.Days)
	}
	return now.Add(-hoursKept)
}

// StorePeriods stores the periods that have ended, and records each of them in the journal. If the
// broker stops after it has stored a period and before it has recorded the period, the period is
// stored again, with the same content.
func (a *Archive) StorePeriods(ctx context.Context) error {
	a.storing.Lock()
	defer a.storing.Unlock()
	for {
		next, events, err := a.nextEnded()
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
		if err := a.putPeriod(ctx, next, text); err != nil {
			return err
		}
		oldest := costs.Period{Span: next.Span, Start: a.session.Retention().oldestKept(next.Span, a.session.Now())}
		if err := a.session.Commit(ctx, &ledger.ClosePeriod{Period: next.Name(), Hash: costs.Hash(text), KeptFrom: oldest.Name()}); err != nil {
			return fmt.Errorf("closing the period %s: %w", next.Name(), err)
		}
		if err := a.dropPeriods(ctx, &oldest); err != nil {
			return err
		}
	}
}

// nextEnded returns the oldest period that has ended, nil if there is none, and the commit of the
// last event on which its rows depend. If there has been no event for observeEvery and the accounts
// are not empty, it first records an Observe.
func (a *Archive) nextEnded() (next *costs.Period, events *journal.Commit, err error) {
	err = a.session.Settled(func(book *replay.Book) error {
		if !book.Costs.IsEmpty() && a.session.Now().Sub(book.State.Latest()) >= observeEvery {
			if err := a.session.Record(ledger.Event{Change: &ledger.Observe{}}); err != nil {
				return err
			}
		}
		ended, found := book.Costs.NextEnded()
		if !found {
			return nil
		}
		next = &ended
		events, err = a.session.Owned()
		return err
	})
	return next, events, err
}

// putPeriod stores the rows of a period in one or more objects.
func (a *Archive) putPeriod(ctx context.Context, p *costs.Period, text []byte) error {
	objects, err := replay.PackPeriod(a.name, p, text)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if err := a.putObject(ctx, obj); err != nil {
			return fmt.Errorf("storing the period %s: %w", p.Name(), err)
		}
	}
	return nil
}

// dropPeriods deletes the stored periods of a span that are older than oldest. It compares their
// names. The caller must just have recorded the oldest kept period in the journal, which proves
// that this replica leads.
func (a *Archive) dropPeriods(ctx context.Context, oldest *costs.Period) error {
	stored, err := a.store.List(ctx, replay.PeriodLabels(oldest.Span))
	if err != nil {
		return fmt.Errorf("listing stored periods: %w", err)
	}
	first := replay.PeriodObject(a.name, oldest.Name(), 0)
	for _, obj := range stored {
		if obj.Name < first {
			if err := a.store.Delete(ctx, obj.Name); err != nil && !errors.Is(err, journal.ErrNotFound) {
				return fmt.Errorf("deleting a stored period: %w", err)
			}
		}
	}
	return nil
}
