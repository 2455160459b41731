// Package term contains what the parts of the broker share during a term: the events that they
// observe, and the vocabulary in which they speak of clusters.
package term

import (
	"slices"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// Observer is a part of the broker that computes state from the book and keeps it up to date.
type Observer interface {
	// Observe is called for every event, after the book has applied it. It must not record further
	// events, because later observers have not been notified of this event yet.
	Observe(e Event)
}

// Event is an event that the book has applied, with the reservations that it affects.
type Event struct {
	*ledger.Event
	// Prior is the state of Changed before the event.
	Prior Prior
	// Changed is the reservation that the event concerns, nil if it concerns none or several.
	Changed *ledger.Reservation
	// Several are the reservations that a ledger.ForgetCluster has changed, sorted by name.
	Several []*ledger.Reservation
	// IsNew is true if the event created Changed.
	IsNew bool
	// Victims are the reservations that make room for Changed, or did before the event.
	Victims []*ledger.Reservation
	// Forgotten are the reservations that the event removed from the book.
	Forgotten []*ledger.Reservation
	// Size is the size of the event in the journal, in bytes.
	Size int
}

// Prior holds what metrics and traces need to know about a reservation before an event changes it.
type Prior struct {
	// Phase is "" if the reservation did not exist.
	Phase ledger.Phase
	// Waiting is when the reservation began to wait, zero if it did not wait.
	Waiting time.Time
	// Acknowledged is true if the placement that the event concerns was acknowledged before, and Ready
	// is true if its node had been Ready before.
	Acknowledged, Ready bool
}

// priorOf returns the state of r, which may be nil, before it is changed.
func priorOf(r *ledger.Reservation, change ledger.Change) Prior {
	if r == nil {
		return Prior{}
	}
	out := Prior{Phase: r.Phase()}
	if r.Waiting != nil {
		out.Waiting = r.Waiting.Since
	}
	var p *ledger.Placement
	switch change := change.(type) {
	case *ledger.Acknowledge:
		p = r.Placement(change.Placement)
	case *ledger.NodeReady:
		p = r.Placement(change.Placement)
	}
	if p != nil {
		out.Acknowledged, out.Ready = !p.AcknowledgedAt.IsZero(), p.EverReady
	}
	return out
}

// EventOn returns an event that the book applies when apply is called. size is its size in the journal.
func EventOn(book *ledger.State, e *ledger.Event, size int, apply func()) Event {
	before := book.Reservation(e.Reservation())
	out := Event{Event: e, Size: size, Victims: book.Victims(before), Prior: priorOf(before, e.Change)}
	if forget, ok := e.Change.(*ledger.Forget); ok {
		for _, name := range forget.Names {
			if r := book.Reservation(name); r != nil {
				out.Forgotten = append(out.Forgotten, r)
			}
		}
	}
	apply()
	out.Changed = book.Reservation(e.Reservation())
	out.IsNew = before == nil && out.Changed != nil
	out.Victims = append(out.Victims, book.Victims(out.Changed)...)
	if _, several := e.Change.(*ledger.ForgetCluster); several {
		book.Reservations(func(r *ledger.Reservation) {
			if r.Changed == book.Position() {
				out.Several = append(out.Several, r)
			}
		})
		slices.SortFunc(out.Several, func(a, b *ledger.Reservation) int { return strings.Compare(a.Name, b.Name) })
	}
	return out
}
