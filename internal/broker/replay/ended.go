package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/history"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// addForgotten adds the reservations that an event forgets to the history. The event must not have
// been applied.
func (k *Book) addForgotten(f *ledger.Forget) {
	for i, name := range f.Names {
		if r := k.State.Reservation(name); r != nil && !slices.Contains(f.Names[:i], name) {
			k.History.Add(RowOf(r))
		}
	}
}

func batchClosedBy(c *ledger.CloseBatch) history.Closed {
	return history.Closed{Link: history.Link{Batch: c.Batch, Hash: c.Hash}, KeptFrom: c.KeptFrom}
}

// RowOf describes a reservation that has ended.
func RowOf(r *ledger.Reservation) history.Row {
	out := history.Row{
		Name: r.Name, Requester: r.Requester, Tenant: r.Tenant, Amounts: r.Amounts, By: string(ledger.ActorOf(r.By)),
		CreatedAt: inSeconds(r.CreatedAt.Time()), Reason: string(r.EndReason), Earlier: int(r.Skipped),
	}
	if h := r.History; h != nil {
		out.EndedBy, out.EndedAt, out.Message = string(ledger.ActorOf(h.EndedBy)), inSeconds(h.EndedAt), h.EndMessage
	}
	if p := r.Current(); p != nil {
		out.Amounts = r.AgreedWith(p)
	}
	data := requirements.DataBytes(r.Demands().Data)
	for i := range r.Placements {
		p := &r.Placements[i]
		row := history.Placement{
			Provider: p.Provider, AssignedAt: inSeconds(p.AssignedAt.Time()), AcknowledgedAt: inSeconds(p.AcknowledgedAt.Time()),
			Withdrawn: p.Withdrawn, WithdrawnAt: inSeconds(p.WithdrawnAt.Time()),
		}
		if p.Price != nil {
			row.PerHour, row.Currency, row.NotPriced = p.Price.PerHour(r.AgreedWith(p), data), p.Price.Currency, p.Price.NotPriced
		}
		out.Placements = append(out.Placements, row)
	}
	if c := r.Cost(); c != nil {
		out.Costs = append(out.Costs, history.Cost{Currency: c.Currency, Sum: c.SoFar})
		for _, earlier := range c.Earlier {
			out.Costs = append(out.Costs, history.Cost{Currency: earlier.Currency, Sum: earlier.Sum})
		}
	}
	out.Clip()
	return out
}

func inSeconds(at time.Time) time.Time {
	if at.IsZero() {
		return time.Time{}
	}
	return at.UTC().Truncate(time.Second)
}

// Ended are the reservations of a journal that have ended.
type Ended struct {
	// Journal is the ID of the journal.
	Journal string
	// Rows are in no particular order.
	Rows []history.Row
	// Missing says which older reservations could not be read, "" if none.
	Missing string
}

// ReadEnded reads the reservations of a broker that have ended from the stored journal and the stored
// batches of its history. It needs no running broker. If there is no journal with that name, the error
// wraps journal.ErrNotFound.
func ReadEnded(ctx context.Context, store journal.Store, name string) (*Ended, error) {
	id, book, err := ReadStored(ctx, store, name)
	if err != nil {
		return nil, err
	}
	out := &Ended{Journal: id}
	book.State.Reservations(func(r *ledger.Reservation) {
		if r.EndReason != "" {
			out.Rows = append(out.Rows, RowOf(r))
		}
	})
	out.Rows = append(out.Rows, book.History.Open()...)
	closed := book.History.Closed()
	for next := &closed.Link; next != nil && next.Batch != 0; {
		b, hash, err := readBatch(ctx, store, name, id, next.Batch)
		switch {
		case errors.Is(err, journal.ErrNotFound) && next.Batch < closed.KeptFrom:
			return out, nil // deleted, because the history is full
		case errors.Is(err, journal.ErrNotFound), errors.Is(err, errDamaged):
			out.Missing = err.Error()
			return out, nil
		case err != nil:
			return nil, err
		case hash != next.Hash:
			out.Missing = fmt.Sprintf("the rows of batch %d have another hash than the journal names", next.Batch)
			return out, nil
		}
		out.Rows = append(out.Rows, b.Rows...)
		next = b.Before
	}
	return out, nil
}
