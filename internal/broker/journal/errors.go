package journal

import (
	"errors"
	"fmt"
)

// Outcomes of an append. Errors of this package wrap them with the details.
var (
	// ErrUnavailable: the record is not in the journal and never will be.
	ErrUnavailable = errors.New("not written")
	// ErrUnknown: the API server did not confirm in time whether the record was stored. Only
	// opening the journal again resolves it.
	ErrUnknown = errors.New("outcome unknown")
	// ErrFenced: another writer opened the journal, or its tail was edited. Records in flight
	// may or may not have been stored before that.
	ErrFenced = errors.New("fenced off by another writer")
	// ErrFull: too many records wait for the API server. It is wrapped together with
	// ErrUnavailable; the journal continues and the caller may try again later.
	ErrFull = errors.New("journal queue is full")
	// ErrTooLarge: the record exceeds MaxRecordBytes. It is wrapped together with
	// ErrUnavailable.
	ErrTooLarge = errors.New("record is too large")
)

// ErrDiverged means that the stored journal does not continue the part that a Follower or Walker has
// read, or does not contain the place up to which a Walker was to read.
var ErrDiverged = errors.New("the journal does not continue from the position that was read")

// Refusals of a Store. Each of them, and ErrUnavailable, means that the call changed nothing.
// After any other error of a write, the outcome of the write is unknown.
var (
	ErrNotFound = errors.New("no such object")
	ErrExists   = errors.New("object exists already")
	ErrConflict = errors.New("object was changed by someone else")
)

// CorruptError reports that the stored objects differ from those that a writer of this journal
// wrote. Nothing is repaired or skipped: see docs/journal.md, "Repair".
type CorruptError struct {
	// Journal is the name given to Open.
	Journal string
	// Object is the name of the ConfigMap that is damaged or missing.
	Object string
	// Position is the position of the first record in doubt.
	Position uint64
	// Reason describes the mismatch.
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal %q is damaged: ConfigMap %q, position %d: %s; nothing was changed, repair it as docs/journal.md describes",
		e.Journal, e.Object, e.Position, e.Reason)
}
