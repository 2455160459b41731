package archive

import (
	"context"
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
		return costs.Month.StartOf(now).AddDate(0, -r.Months, 0) // from the 31st, AddDate may end in the next month
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
		objects, err := replay.PackPeriod(a.name, next, text)
		if err == nil {
			err = a.putObjects(ctx, objects)
		}
		if err != nil {
			return fmt.Errorf("storing the period %s: %w", next.Name(), err)
		}
		oldest := costs.Part{Span: next.Span, Start: a.session.Retention().oldestKept(next.Span, a.session.Now())}
		if err := a.session.Commit(ctx, &ledger.ClosePeriod{Period: next.Name(), Hash: costs.Hash(text), KeptFrom: oldest.Name()}); err != nil {
			return fmt.Errorf("closing the period %s: %w", next.Name(), err)
		}
		// The event that names the oldest kept period proves that this replica leads.
		first := replay.PeriodObject(a.name, oldest.Name(), 0)
		if err := a.dropObjects(ctx, replay.PeriodLabels(next.Span), func(object string) bool { return object >= first }); err != nil {
			return fmt.Errorf("deleting stored periods: %w", err)
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
