package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// trimBound returns the last position of the newest sealed segment that may be deleted once
// a checkpoint at position is valid, or the present bound if that is higher.
func (j *Journal) trimBound(ctx context.Context, position uint64, now time.Time) (uint64, error) {
	sealed, err := j.listStored(ctx, PartSegment)
	if err != nil {
		return 0, err
	}
	bases, err := j.readersBases(ctx, position)
	if err != nil {
		return 0, err
	}
	covered := slices.DeleteFunc(sealed, func(s stored) bool { return s.position > position })
	j.mu.Lock()
	bound := j.trimmed
	j.mu.Unlock()
	for i, s := range covered {
		limit := max(j.opts.RetainSegments, 0)
		isNeeded := s.position > bases[0]
		if isNeeded {
			limit = max(limit, readersSegments)
		}
		surplus := len(covered)-i > limit
		if !surplus && (isNeeded || now.Sub(s.created) < j.opts.RetainFor) {
			break
		}
		bound = max(bound, s.position)
	}
	return bound, nil
}

// readersBases returns the positions of the two newest checkpoints from which Options.Keep's readers
// can continue, the older one first, or 0 for the beginning of the journal. There are two because the
// newer one may be incomplete. If there are no such readers, or if they have read everything up to
// position, it returns position twice: they need nothing older.
func (j *Journal) readersBases(ctx context.Context, position uint64) ([2]uint64, error) {
	if j.opts.Keep == nil {
		return [2]uint64{position, position}, nil
	}
	read := j.opts.Keep()
	if read >= position {
		return [2]uint64{position, position}, nil
	}
	chunks, err := j.listStored(ctx, PartCheckpoint)
	if err != nil {
		return [2]uint64{}, err
	}
	var bases [2]uint64
	for _, c := range chunks {
		if c.position <= read && c.position > bases[1] {
			bases = [2]uint64{bases[1], c.position}
		}
	}
	return bases, nil
}

// trimTo deletes the segments up to bound, and the checkpoints before ref except those that
// earlierToKeep, readersBases and keepOldest name. A valid checkpoint follows everything that is
// deleted. So even a writer
// that has been fenced off deletes nothing that its successor needs.
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
	keep := earlierToKeep(chunks, bound, ref.Position, j.opts.RetainFor/keptCheckpoints)
	bases, unknown := j.readersBases(ctx, ref.Position)
	err = errors.Join(err, unknown)
	if bases[0] == 0 {
		// It is unknown how far the readers have read, or they have not read as far as the second oldest checkpoint.
		keepOldest(keep, chunks, bound)
	}
	for _, base := range bases {
		keep[base] = true
	}
	for _, c := range chunks {
		if c.position < ref.Position && !keep[c.position] {
			err = errors.Join(err, j.removeObject(ctx, c.name))
		}
	}
	return err
}

// keepOldest adds to keep the positions of the two oldest checkpoints after which no record was deleted. There
// are two because one of them may be incomplete.
func keepOldest(keep map[uint64]bool, chunks []stored, bound uint64) {
	var oldest []uint64
	for _, c := range chunks {
		if c.position >= bound && !slices.Contains(oldest, c.position) && len(oldest) < 2 {
			oldest = append(oldest, c.position)
			keep[c.position] = true
		}
	}
}

// Earlier checkpoints are kept so that the past can be replayed from them. About keptCheckpoints of
// them are spread over the retention. Together they have at most maxEarlierChunks chunks (64 MiB).
const (
	keptCheckpoints  = 4
	maxEarlierChunks = 128
)

// earlierToKeep returns the positions of the checkpoints before newest that are kept. They lie at
// bound or after it, because the records after a checkpoint can be replayed only if none of them is
// deleted. They were stored at least pause apart. If they have too many chunks, the oldest are left
// out. chunks must be in order of position.
func earlierToKeep(chunks []stored, bound, newest uint64, pause time.Duration) map[uint64]bool {
	keep := map[uint64]bool{}
	if pause <= 0 {
		return keep
	}
	var kept []stored
	var last time.Time
	for _, c := range chunks {
		switch {
		case c.position < bound || c.position >= newest:
		case keep[c.position]:
			kept = append(kept, c)
		case len(kept) == 0 || c.created.Sub(last) >= pause:
			keep[c.position], last = true, c.created
			kept = append(kept, c)
		}
	}
	for len(kept) > maxEarlierChunks {
		oldest := kept[0].position
		delete(keep, oldest)
		kept = slices.DeleteFunc(kept, func(c stored) bool { return c.position == oldest })
	}
	return keep
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
