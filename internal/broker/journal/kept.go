package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Entry is one record of a journal, with its place in the chain. It is a record of the owner or one
// of the journal itself.
type Entry struct {
	Position uint64
	// Kind is "record" for a record of the owner. For records of the journal itself it is "open" or
	// "checkpoint".
	Kind string
	// Data is the record as the owner appended it.
	Data []byte
	// Prev and Hash are the chain's hashes before and after the record, in hexadecimal.
	Prev, Hash string
}

func (h history) entriesAfter(place link) []Entry {
	var out []Entry
	for _, e := range h.entries[place.Position-h.header.Anchor.Position:] {
		out = append(out, Entry{
			Position: e.at.Position, Kind: string(e.kind), Data: e.payload,
			Prev: place.Hash.String(), Hash: e.at.Hash.String(),
		})
		place = e.at
	}
	return out
}

func (h history) checkpoints() ([]checkpointRef, error) {
	var out []checkpointRef
	for _, e := range h.entries {
		if e.kind != kindCheckpoint {
			continue
		}
		var ref checkpointRef
		if err := json.Unmarshal(e.payload, &ref); err != nil {
			return out, fmt.Errorf("checkpoint record %d: %w", e.at.Position, err)
		}
		out = append(out, ref)
	}
	return out, nil
}

// Kept contains all records that are kept of a journal. They have been verified.
type Kept struct {
	Verified
	// Entries are all kept records, in order.
	Entries []Entry

	reader reader
	// checkpoints has a reference to each checkpoint that is named by a kept record or by the tail,
	// oldest first. Some of these checkpoints may have been deleted.
	checkpoints []checkpointRef
}

// ReadKept verifies a journal as Verify does, and returns its records. It changes nothing.
func ReadKept(ctx context.Context, store Store, name string, opts Options) (*Kept, error) {
	w, err := newWriter(store, name, opts)
	if err != nil {
		return nil, err
	}
	verified, chain, err := verifyChain(ctx, store, name, opts)
	if err != nil {
		return nil, err
	}
	k := &Kept{Verified: verified, reader: newReader(w)}
	for _, s := range chain {
		k.Entries = append(k.Entries, s.entriesAfter(s.header.Anchor)...)
		named, err := s.checkpoints()
		if err != nil {
			return nil, fmt.Errorf("journal %q: %w", name, err)
		}
		k.checkpoints = append(k.checkpoints, named...)
	}
	if newest := chain[len(chain)-1].header.Checkpoint; newest != nil && !slices.Contains(k.checkpoints, *newest) {
		k.checkpoints = append(k.checkpoints, *newest)
	}
	return k, nil
}

// BaseAt returns the newest stored checkpoint at or before a position, and the position of the
// checkpoint. The later records can be replayed on the checkpoint. If there is no such checkpoint,
// BaseAt returns nil and 0 if the journal is kept from its beginning, otherwise an error that
// wraps ErrNotFound.
func (k *Kept) BaseAt(ctx context.Context, position uint64) (state []byte, at uint64, err error) {
	for _, ref := range slices.Backward(k.checkpoints) {
		if ref.Position > position {
			continue
		}
		if state, found, err := k.readBase(ctx, ref); found || err != nil {
			return state, ref.Position, err
		}
	}
	return k.baseAtBeginning(position)
}

// OldestBase returns the oldest stored checkpoint from which records can be replayed, and its
// position. Like BaseAt, it returns nil and 0 if the journal is kept from its beginning.
func (k *Kept) OldestBase(ctx context.Context) (state []byte, at uint64, err error) {
	if k.After == 0 {
		return nil, 0, nil
	}
	for _, ref := range k.checkpoints {
		if state, found, err := k.readBase(ctx, ref); found || err != nil {
			return state, ref.Position, err
		}
	}
	return k.baseAtBeginning(k.Head)
}

// readBase returns the state of a checkpoint. found is false if the checkpoint was deleted, or if
// some of the records after it were deleted.
func (k *Kept) readBase(ctx context.Context, ref checkpointRef) (state []byte, found bool, err error) {
	if ref.Position < k.After {
		return nil, false, nil
	}
	if ref.Chunks > 0 {
		if _, err := k.reader.getObject(ctx, k.reader.name.chunkName(ref, 0)); errors.Is(err, ErrNotFound) {
			return nil, false, nil // the checkpoint was deleted, see earlierToKeep
		}
	}
	state, err = k.reader.readCheckpoint(ctx, ref)
	return state, err == nil, err
}

func (k *Kept) baseAtBeginning(position uint64) (state []byte, at uint64, err error) {
	if k.After == 0 {
		return nil, 0, nil
	}
	return nil, 0, fmt.Errorf("journal %q: no state is stored at or before position %d: %w", k.reader.name, position, ErrNotFound)
}

// NextHash returns the hash of the chain after a record, given the hash before it. Both are in
// hexadecimal.
func NextHash(prev string, position uint64, recordKind string, data []byte) (string, error) {
	at := link{Position: position - 1}
	if err := at.Hash.UnmarshalText([]byte(prev)); err != nil {
		return "", err
	}
	return at.after(kind(recordKind), data).Hash.String(), nil
}
