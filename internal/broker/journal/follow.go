package journal

import (
	"context"
	"errors"
	"fmt"
)

// Follower reads a journal that another process writes, so that little is left to read when it
// takes the journal over. Every read verifies by the chain of hashes that the journal still
// contains all records read before. If it does not, the error wraps ErrDiverged and the Follower
// is unusable from then on. A Follower is not safe for concurrent use.
type Follower struct {
	writer
	journal string
	// at is the place up to which the journal was read.
	at link
}

// Follow reads a journal without changing it, and returns a Follower that continues from
// there. The error wraps ErrNotFound if there is no such journal.
func Follow(ctx context.Context, store Store, name string, opts Options) (*Follower, Recovery, error) {
	w, err := newWriter(store, name, opts)
	if err != nil {
		return nil, Recovery{}, err
	}
	found, err := newReader(w).readAll(ctx)
	if err != nil {
		return nil, Recovery{}, fmt.Errorf("follow journal %q: %w", name, err)
	}
	return &Follower{writer: w, journal: found.recovery.ID, at: found.last.header.Head}, found.recovery, nil
}

// Next returns the owner's records that were appended since the last call, or since Follow.
// After an error other than ErrDiverged it may be called again.
func (f *Follower) Next(ctx context.Context) ([]Record, error) {
	found, err := f.readOn(ctx)
	if err != nil {
		return nil, fmt.Errorf("follow journal %q: %w", f.name, err)
	}
	f.at = found.last.header.Head
	return found.recovery.Records, nil
}

// Open takes the journal over like the function Open, but the Recovery has no checkpoint and
// only the records after those already read. If the error wraps ErrDiverged, the whole journal
// has to be read again.
func (f *Follower) Open(ctx context.Context) (*Journal, Recovery, error) {
	return f.takeOver(ctx, f.readOn)
}

// readOn returns the contents of the journal after the place up to which f has read.
func (f *Follower) readOn(ctx context.Context) (contents, error) {
	r := newReader(f.writer) // a new one each time, because a reader keeps all segments that it has read
	obj, err := r.getObject(ctx, f.name.tailName())
	if errors.Is(err, ErrNotFound) {
		return contents{}, fmt.Errorf("%w: %w", ErrDiverged, err)
	}
	if err != nil {
		return contents{}, err
	}
	last, err := r.decodeSegment(obj)
	if err != nil {
		return contents{}, err
	}
	found := contentsUpTo(last, obj.ResourceVersion)
	if last.header.Journal != f.journal || last.header.Head.Position < f.at.Position {
		return contents{}, fmt.Errorf("%w: it ends at position %d of journal %s, and position %d of %s was read",
			ErrDiverged, last.header.Head.Position, last.header.Journal, f.at.Position, f.journal)
	}
	chain, err := r.walkBack(ctx, last, f.at.Position)
	if _, gone := errors.AsType[*CorruptError](err); gone {
		return contents{}, fmt.Errorf("%w: %w", ErrDiverged, err)
	}
	if err != nil {
		return contents{}, err
	}
	if chain[0].placeAt(f.at.Position) != f.at {
		return contents{}, fmt.Errorf("%w: position %d has another hash", ErrDiverged, f.at.Position)
	}
	found.recovery.Records = recordsAfter(chain, f.at.Position)
	return found, nil
}

func (h history) placeAt(position uint64) link {
	if position == h.header.Anchor.Position {
		return h.header.Anchor
	}
	return h.entries[position-h.header.Anchor.Position-1].at
}
