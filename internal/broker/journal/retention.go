package journal

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trimBound returns the last position of the newest sealed segment that may be deleted once
// a checkpoint at position is valid, or the present bound if that is higher.
func (j *Journal) trimBound(ctx context.Context, position uint64, now time.Time) (uint64, error) {
	sealed, err := j.listStored(ctx, PartSegment)
	if err != nil {
		return 0, err
	}
	var covered []stored
	for _, s := range sealed {
		if s.position <= position {
			covered = append(covered, s)
		}
	}
	j.mu.Lock()
	bound := j.trimmed
	j.mu.Unlock()
	for i, s := range covered {
		surplus := len(covered)-i > max(j.opts.RetainSegments, 0)
		if !surplus && now.Sub(s.created) < j.opts.RetainFor {
			break
		}
		bound = max(bound, s.position)
	}
	return bound, nil
}

// trimTo deletes the segments up to bound, and the checkpoints before ref. All of them lie
// before a valid checkpoint. So even a writer that was fenced off meanwhile deletes nothing
// that its successor needs.
func (j *Journal) trimTo(ctx context.Context, ref checkpointRef, bound uint64) error {
	segments, err := j.listStored(ctx, PartSegment)
	if err != nil {
		return err
	}
	chunks, err := j.listStored(ctx, PartCheckpoint)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if s.position <= bound {
			err = errors.Join(err, j.removeObject(ctx, s.name))
		}
	}
	for _, c := range chunks {
		if c.position < ref.Position {
			err = errors.Join(err, j.removeObject(ctx, c.name))
		}
	}
	return err
}

func (j *Journal) removeObject(ctx context.Context, name string) error {
	err := j.repeatUntilKnown(ctx, func(ctx context.Context) error { return j.store.Delete(ctx, name) })
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("delete ConfigMap %q: %w", name, err)
	}
	return nil
}

// stored is a sealed segment or a chunk of a checkpoint.
type stored struct {
	name     string
	position uint64
	created  time.Time
}

// listStored returns the stored objects of a part, in order of position.
func (w writer) listStored(ctx context.Context, part string) ([]stored, error) {
	var objects []Object
	err := w.repeatUntilKnown(ctx, func(ctx context.Context) (err error) {
		objects, err = w.store.List(ctx, map[string]string{LabelJournal: string(w.name), LabelPart: part})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list ConfigMaps with label %s=%s: %w", LabelPart, part, err)
	}
	var found []stored
	for _, obj := range objects {
		if position, ok := w.name.positionIn(part, obj.Name); ok {
			found = append(found, stored{name: obj.Name, position: position, created: obj.Created})
		}
	}
	return found, nil
}
