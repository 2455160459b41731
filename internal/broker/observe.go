package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"

// observer derives state from the book and keeps it up to date.
type observer interface {
	// observe is called for every event, after the book has applied it. It must not record
	// further events: the observers after it have not received this one yet.
	observe(e event)
}

// event is an event that the book has applied, with the reservations it concerns.
type event struct {
	*ledger.Event
	// changed is the reservation that the event concerns, nil for none.
	changed *ledger.Reservation
	// isNew reports whether the event created that reservation.
	isNew bool
	// victims make room for that reservation, or did so before the event.
	victims []*ledger.Reservation
	// forgotten are the reservations that the book no longer has.
	forgotten []*ledger.Reservation
	// size is the size of the event in the journal, in bytes.
	size int
}

// forgottenBy returns the reservations that the book will forget with an event.
func (s *session) forgottenBy(e *ledger.Event) []*ledger.Reservation {
	forget, ok := e.Change.(*ledger.Forget)
	if !ok {
		return nil
	}
	var out []*ledger.Reservation
	for _, name := range forget.Names {
		if r := s.book.Reservation(name); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// notifyObservers tells the observers of an event.
func (s *session) notifyObservers(e event) {
	for _, o := range s.observers {
		o.observe(e)
	}
}
