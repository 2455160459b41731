package ledger

import "errors"

// Refusals of Check; match with errors.Is.
var (
	// ErrOverbooked: the provider does not have the amounts free.
	ErrOverbooked = errors.New("does not fit into what the provider offers")
	// ErrUnknown: the event names a cluster, reservation or placement that is not
	// in the book.
	ErrUnknown = errors.New("not in the book")
	// ErrTaken: the name or the key is in use, or the key is shut.
	ErrTaken = errors.New("already taken")
	// ErrOver: the reservation, placement or quote has ended.
	ErrOver = errors.New("has ended")
	// ErrMalformed: the event lacks a field or has an impossible value.
	ErrMalformed = errors.New("malformed event")
)
