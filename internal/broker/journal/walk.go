package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Place is the end of the part of a journal that a reader has processed. It can be stored.
type Place struct {
	// Journal is the random ID of the journal.
	Journal string `json:"journal"`
	// Position is the last processed position, and Hash the hash of the chain there, in hexadecimal.
	Position uint64 `json:"position"`
	Hash     string `json:"hash"`
}

// End returns the place of the newest stored record. The error wraps ErrNotFound if there is no such
// journal.
func End(ctx context.Context, store Store, name string, opts Options) (Place, error) {
	w, err := newWriter(store, name, opts)
	if err != nil {
		return Place{}, err
	}
	r := newReader(w)
	obj, err := r.getObject(ctx, r.name.tailName())
	if err != nil {
		return Place{}, err
	}
	last, err := r.decodeSegment(obj)
	if err != nil {
		return Place{}, err
	}
	head := last.header.Head
	return Place{Journal: last.header.Journal, Position: head.Position, Hash: head.Hash.String()}, nil
}

// Walker reads a journal forward, at most one segment at a time, so that it needs little memory
// however far it lags behind the writer. It changes nothing, and is not safe for concurrent use.
type Walker struct {
	writer
	journal string
	// at is the place up to which the journal was read. Its hash is zero as long as only the
	// position is known, after a checkpoint.
	at link
	// sealed are known segments that end after at, in order of position.
	sealed []stored
}

// Walk returns a Walker that can reach a place, and the state from which it starts: a checkpoint at
// or before the place, or nil for the beginning of the journal. Its error wraps ErrDiverged if the
// place is not part of the journal, and ErrNotFound if there is no journal or if the records after
// the place were trimmed.
//
// Walk compares only positions; the caller compares the hash when the Walker reaches the place.
func Walk(ctx context.Context, store Store, name string, opts Options, to Place) (w *Walker, state []byte, err error) {
	base, err := newWriter(store, name, opts)
	if err != nil {
		return nil, nil, err
	}
	r := newReader(base)
	err = r.readStable(ctx, func(obj Object) error {
		last, err := r.decodeSegment(obj)
		if err != nil {
			return err
		}
		if last.header.Journal != to.Journal || last.header.Head.Position < to.Position {
			return fmt.Errorf("%w: it ends at position %d of journal %s, and position %d of %s was read",
				ErrDiverged, last.header.Head.Position, last.header.Journal, to.Position, to.Journal)
		}
		w = &Walker{writer: base, journal: to.Journal, at: genesisOf(to.Journal)}
		ref, err := r.baseBefore(ctx, last, to.Position)
		if err != nil || ref == nil {
			state = nil
			return err
		}
		w.at = link{Position: ref.Position}
		state, err = r.readCheckpoint(ctx, *ref)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("walk journal %q to position %d: %w", name, to.Position, err)
	}
	return w, state, nil
}

// baseBefore returns the newest checkpoint at or before a position from which all records are kept;
// nil if the journal is kept from its beginning and has no such checkpoint.
func (r reader) baseBefore(ctx context.Context, last history, position uint64) (*checkpointRef, error) {
	if newest := last.header.Checkpoint; newest != nil && newest.Position <= position {
		return newest, nil
	}
	chunks, err := r.listStored(ctx, PartCheckpoint)
	if err != nil {
		return nil, err
	}
	for _, c := range slices.Backward(chunks) {
		if c.position > position || c.position < last.header.Trimmed {
			continue
		}
		ref, err := r.findCheckpoint(ctx, last, c.position)
		if ref != nil || err != nil {
			return ref, err
		}
	}
	if last.header.Trimmed == 0 {
		return nil, nil
	}
	return nil, fmt.Errorf("no state is stored at or before position %d: %w", position, ErrNotFound)
}

// findCheckpoint returns the checkpoint of a position, or nil if no record names it. The record that
// names it follows soon after that position.
func (r reader) findCheckpoint(ctx context.Context, last history, position uint64) (*checkpointRef, error) {
	sealed, err := r.listStored(ctx, PartSegment)
	if err != nil {
		return nil, err
	}
	for _, s := range sealed {
		if s.position <= position {
			continue
		}
		obj, err := r.getObject(ctx, s.name)
		if errors.Is(err, ErrNotFound) {
			continue // it was trimmed meanwhile
		}
		if err != nil {
			return nil, err
		}
		segment, err := r.decodeSegment(obj)
		if err != nil {
			return nil, err
		}
		if ref, err := segment.checkpointOf(position); ref != nil || err != nil {
			return ref, err
		}
	}
	return last.checkpointOf(position)
}

func (h history) checkpointOf(position uint64) (*checkpointRef, error) {
	named, err := h.checkpoints()
	if i := slices.IndexFunc(named, func(ref checkpointRef) bool { return ref.Position == position }); i >= 0 {
		return &named[i], nil
	}
	return nil, err
}

// Position returns the position up to which the journal was read.
func (w *Walker) Position() uint64 { return w.at.Position }

// Next returns the following records, including the journal's own, and none at the end of the
// journal. Its error wraps ErrDiverged if the journal does not continue from where it was read, and
// ErrNotFound if the following records were trimmed. After any other error Next may be called again.
func (w *Walker) Next(ctx context.Context) ([]Entry, error) {
	r := newReader(w.writer)
	var out []Entry
	err := r.readStable(ctx, func(obj Object) error {
		last, err := r.decodeSegment(obj)
		if err != nil {
			return err
		}
		if last.header.Journal != w.journal || last.header.Head.Position < w.at.Position {
			return fmt.Errorf("%w: it ends at position %d of journal %s", ErrDiverged, last.header.Head.Position, last.header.Journal)
		}
		from := last
		if last.header.Anchor.Position > w.at.Position {
			if from, err = w.nextSealed(ctx, r); err != nil {
				return err
			}
		}
		out, err = w.readOn(from)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("walk journal %q from position %d: %w", w.name, w.at.Position, err)
	}
	return out, nil
}

// nextSealed returns a sealed segment that contains the record after w.at. It may be one that a fenced
// writer left behind: such a segment has the same records as the journal, but ends earlier.
func (w *Walker) nextSealed(ctx context.Context, r reader) (history, error) {
	for _, fresh := range []bool{false, true} {
		if fresh {
			var err error
			if w.sealed, err = r.listStored(ctx, PartSegment); err != nil {
				return history{}, err
			}
		}
		for len(w.sealed) > 0 && w.sealed[0].position <= w.at.Position {
			w.sealed = w.sealed[1:]
		}
		if len(w.sealed) == 0 {
			continue
		}
		obj, err := r.getObject(ctx, w.sealed[0].name)
		if errors.Is(err, ErrNotFound) {
			continue // it was trimmed, see below
		}
		if err != nil {
			return history{}, err
		}
		found, err := r.decodeSegment(obj)
		if err == nil && found.header.Anchor.Position > w.at.Position {
			break
		}
		return found, err
	}
	return history{}, fmt.Errorf("the records after position %d were trimmed: %w", w.at.Position, ErrNotFound)
}

// readOn returns the records of a segment after w.at, and moves w.at to the segment's end.
func (w *Walker) readOn(s history) ([]Entry, error) {
	before := s.placeAt(w.at.Position)
	if w.at.Hash != (digest{}) && before != w.at || s.header.Journal != w.journal {
		return nil, fmt.Errorf("%w: position %d has another hash", ErrDiverged, w.at.Position)
	}
	w.at = s.header.Head
	return s.entriesAfter(before), nil
}

// After returns the place of an entry of the walked journal.
func (w *Walker) After(e *Entry) Place {
	return Place{Journal: w.journal, Position: e.Position, Hash: e.Hash}
}
