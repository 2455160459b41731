package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"

// observer is a component that computes state from the book and keeps it up to date.
type observer interface {
	// observe is called for every event, after the book has applied it. It must not record further
	// events, because later observers have not been notified of this event yet.
	observe(e event)
}

// event is an event that the book has applied, with the reservations that it affects.
type event struct {
	*ledger.Event
	// prior is what metrics need to know about the state of changed before the event.
	prior prior
	// changed is the reservation that the event concerns, nil if it concerns none or several.
	changed *ledger.Reservation
	// isNew is true if the event created changed.
	isNew bool
	// victims are the reservations that make room for changed, or did before the event.
	victims []*ledger.Reservation
	// forgotten are the reservations that the event removed from the book.
	forgotten []*ledger.Reservation
	// size is the size of the event in the journal, in bytes.
	size int
}

// forgottenBy returns the reservations that the book will forget when it applies the event.
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
