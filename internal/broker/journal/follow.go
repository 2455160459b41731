package journal

import (
	"context"
	"errors"
	"fmt"
)

// Follower keeps up with a journal that others write, so that little is left to read for
// who takes it over. What it has read is proved by its place in the chain of hashes each
// time anew: a Follower that gets ErrDiverged has read what is not the journal any more,
// and is of no use. It is for one goroutine.
type Follower struct {
	writer
	journal string
	// at is the place up to which everything was read.
	at link
}

// Follow reads a journal without changing it, and returns a Follower that continues from
// there. The error wraps ErrNotFound if there is no such journal.
func Follow(ctx context.Context, store Store, name string, opts Options) (*Follower, Recovery, error) {
	w, err := newWriter(store, name, opts)
	if err != nil {
		return nil, Recovery{}, err
	}
	found, err := newReader(w).read(ctx)
	if err != nil {
		return nil, Recovery{}, fmt.Errorf("follow journal %q: %w", name, err)
	}
	return &Follower{writer: w, journal: found.recovery.ID, at: found.last.header.Head}, found.recovery, nil
}

// Next returns the owner's records that were appended since it was called last, or since
// Follow. After an error other than ErrDiverged it may be called again.
func (f *Follower) Next(ctx context.Context) ([]Record, error) {
	found, err := f.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("follow journal %q: %w", f.name, err)
	}
	f.at = found.last.header.Head
	return found.recovery.Records, nil
}

// Open takes the journal over as the function Open does, but what it returns has no
// checkpoint, and only the records that follow what was read already. The error wraps
// ErrDiverged where the whole journal has to be read.
func (f *Follower) Open(ctx context.Context) (*Journal, Recovery, error) {
	return f.takeOver(ctx, f.read)
}

// read returns what follows the place of f.
func (f *Follower) read(ctx context.Context) (contents, error) {
	r := newReader(f.writer) // what was read once is not read again
	obj, err := r.get(ctx, f.name.tail())
	if errors.Is(err, ErrNotFound) {
		return contents{}, fmt.Errorf("%w: %w", ErrDiverged, err)
	}
	if err != nil {
		return contents{}, err
	}
	last, err := r.decode(obj)
	if err != nil {
		return contents{}, err
	}
	found := contentsUpTo(last, obj.ResourceVersion)
	if last.header.Journal != f.journal || last.header.Head.Position < f.at.Position {
		return contents{}, fmt.Errorf("%w: it ends at position %d of journal %s, and position %d of %s was read",
			ErrDiverged, last.header.Head.Position, last.header.Journal, f.at.Position, f.journal)
	}
	chain, err := r.walk(ctx, last, f.at.Position)
	if _, gone := errors.AsType[*CorruptError](err); gone {
		return contents{}, fmt.Errorf("%w: %w", ErrDiverged, err)
	}
	if err != nil {
		return contents{}, err
	}
	if chain[0].place(f.at.Position) != f.at {
		return contents{}, fmt.Errorf("%w: position %d has another hash", ErrDiverged, f.at.Position)
	}
	found.recovery.Records = recordsAfter(chain, f.at.Position)
	return found, nil
}

// place is the one at a position between the anchor and the head of a segment.
func (h history) place(position uint64) link {
	if position == h.header.Anchor.Position {
		return h.header.Anchor
	}
	return h.entries[position-h.header.Anchor.Position-1].at
}
