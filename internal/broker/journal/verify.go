package journal

import (
	"context"
	"fmt"
)

// Verified is the part of a journal that Verify found intact.
type Verified struct {
	// ID is the random ID of the journal.
	ID string
	// After is the position before the first kept record, Head the position of the last one.
	After, Head uint64
	// Segments counts the ConfigMaps of the chain, including the tail.
	Segments int
	// Records counts all records, including those of the journal itself.
	Records int
}

// Verify reads all kept segments, including those before the last checkpoint, and this checkpoint. If
// they do not fit together, its error wraps a *CorruptError for the newest place where they do not. It
// changes nothing.
func Verify(ctx context.Context, store Store, name string, opts Options) (Verified, error) {
	verified, _, err := verifyChain(ctx, store, name, opts)
	return verified, err
}

// verifyChain does what Verify does, and also returns the kept segments, oldest first.
func verifyChain(ctx context.Context, store Store, name string, opts Options) (Verified, []history, error) {
	w, err := newWriter(store, name, opts)
	if err != nil {
		return Verified{}, nil, err
	}
	r := newReader(w)
	var chain []history
	err = r.readStable(ctx, func(obj Object) error {
		last, err := r.decodeSegment(obj)
		if err != nil {
			return err
		}
		if _, err := r.checkHead(ctx, last.header.Head.Position); err != nil {
			return err
		}
		if chain, err = r.walkBack(ctx, last, last.header.Trimmed); err != nil {
			return err
		}
		if err := r.checkCheckpointOf(chain); err != nil {
			return err
		}
		if last.header.Checkpoint != nil {
			_, err = r.readCheckpoint(ctx, *last.header.Checkpoint)
		}
		return err
	})
	if err != nil {
		return Verified{}, nil, fmt.Errorf("verify journal %q: %w", name, err)
	}
	first, last := chain[0].header, chain[len(chain)-1].header
	return Verified{
		ID:       last.Journal,
		After:    first.Anchor.Position,
		Head:     last.Head.Position,
		Segments: len(chain),
		Records:  int(last.Head.Position - first.Anchor.Position),
	}, chain, nil
}
