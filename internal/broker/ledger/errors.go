package ledger

import "errors"

// Reasons why Check refuses an event; match them with errors.Is.
var (
	// ErrOverbooked: the provider does not have the requested amounts free.
	ErrOverbooked = errors.New("does not fit into what the provider offers")
	// ErrUnknown: the event names a cluster, reservation, placement or quote that is not in the
	// book.
	ErrUnknown = errors.New("not in the book")
	// ErrTaken: the name or the key is in use or closed, or the present state does not allow the
	// change.
	ErrTaken = errors.New("already taken")
	// ErrOver: the reservation, placement or quote has ended.
	ErrOver = errors.New("has ended")
	// ErrMalformed: the event lacks a field or has an impossible value.
	ErrMalformed = errors.New("malformed event")
)
