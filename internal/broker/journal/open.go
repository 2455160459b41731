package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// Record is one of the owner's records.
type Record struct {
	Position uint64
	Data     []byte
}

// Recovery is the content of a journal: applying Records in order to Checkpoint gives the
// owner's state.
type Recovery struct {
	// ID is the random ID of the journal. Another ID means another history.
	ID string
	// Checkpoint is the state up to CheckpointPosition; nil at position 0.
	Checkpoint         []byte
	CheckpointPosition uint64
	// Records are the owner's records after CheckpointPosition.
	Records []Record
	// Head is the last position. After Open it is the position of the record that fences off
	// former writers, so no two terms have the same Head.
	Head uint64
}

// Open takes the journal over, or creates it if no object of it exists. It reads and verifies
// all records since the last checkpoint, and appends a record that fences off all former
// writers. Run must then be started.
//
// The error is a *CorruptError if the stored objects cannot be trusted. It wraps ErrUnavailable
// or ErrUnknown if the API server does not answer as needed; Open may then be called again.
func Open(ctx context.Context, store Store, name string, opts Options) (*Journal, Recovery, error) {
	w, err := newWriter(store, name, opts)
	if err != nil {
		return nil, Recovery{}, err
	}
	r := newReader(w)
	return w.takeOver(ctx, func(ctx context.Context) (contents, error) {
		found, err := r.readAll(ctx)
		if errors.Is(err, ErrNotFound) {
			return w.createTail(ctx)
		}
		return found, err
	})
}

// takeOver reads the journal with read, and then appends a record that fences off former writers.
func (w writer) takeOver(ctx context.Context, read func(context.Context) (contents, error)) (*Journal, Recovery, error) {
	// lost is the head at this writer's last attempt to append, if another writer appended first;
	// else nil.
	var lost *link
	for {
		found, err := read(ctx)
		if err != nil {
			return nil, Recovery{}, fmt.Errorf("open journal %q: %w", w.name, err)
		}
		head := found.last.header.Head
		if lost != nil && *lost != head {
			// A busy writer may append again and again before this writer does. A touch fences
			// the busy writer off, because it needs no resourceVersion.
			if err := w.touchTail(ctx); err != nil {
				return nil, Recovery{}, fmt.Errorf("open journal %q: %w", w.name, err)
			}
			lost = nil
			continue
		}
		b := openingBatch(found.last.segment)
		stored, err := tail{segment: found.last.asContinued(), version: found.version}.extendWith(ctx, w, b)
		if errors.Is(err, ErrFenced) && ctx.Err() == nil {
			lost = &head
			continue
		}
		if err != nil {
			return nil, Recovery{}, fmt.Errorf("open journal %q: take over at position %d: %w", w.name, b.head.Position, err)
		}
		failpoint.Hit(failpoint.JournalOpened)
		found.recovery.Head = b.head.Position
		return newJournal(w, stored), found.recovery, nil
	}
}

func newJournal(w writer, t tail) *Journal {
	return &Journal{
		writer:     w,
		id:         t.header.Journal,
		tail:       t,
		wake:       make(chan struct{}, 1),
		next:       t.header.Head,
		committed:  t.header.Head,
		checkpoint: t.header.Checkpoint,
		trimmed:    t.header.Trimmed,
	}
}

// openingBatch returns the batch with which a writer takes over.
func openingBatch(s segment) *batch {
	payload := []byte("{}")
	head := s.header.Head.after(kindOpen, payload)
	return &batch{lines: appendLine(nil, head, kindOpen, payload), records: 1, head: head}
}

// touchTail fences off the present writer without appending a record.
func (w writer) touchTail(ctx context.Context) error {
	err := w.repeatUntilKnown(ctx, func(ctx context.Context) error { return w.store.Touch(ctx, w.name.tailName(), randomID()) })
	if err != nil && !errors.Is(err, ErrConflict) {
		return fmt.Errorf("touch ConfigMap %q: %w", w.name.tailName(), err)
	}
	return nil
}

// createTail creates the tail of a new journal. It refuses if other objects of the journal
// exist, because they are the remains of a lost history.
func (w writer) createTail(ctx context.Context) (contents, error) {
	var remains []Object
	err := w.repeatUntilKnown(ctx, func(ctx context.Context) (err error) {
		remains, err = w.store.List(ctx, map[string]string{LabelJournal: string(w.name)})
		return err
	})
	if err != nil {
		return contents{}, fmt.Errorf("look for remains: %w", err)
	}
	// If there is a tail, another writer has just created it, and may have sealed segments since then.
	if len(remains) > 0 && !slices.ContainsFunc(remains, func(o Object) bool { return o.Name == w.name.tailName() }) {
		return contents{}, &CorruptError{
			Journal: string(w.name), Object: w.name.tailName(),
			Reason: fmt.Sprintf("it is missing, while %d others of this journal exist, such as %q", len(remains), remains[len(remains)-1].Name),
		}
	}
	id := randomID()
	s, err := newSegment(id)
	if err != nil {
		return contents{}, err
	}
	err = w.repeatUntilKnown(ctx, func(ctx context.Context) error {
		_, err := w.store.Create(ctx, Object{Name: w.name.tailName(), Labels: w.name.labelsOf(PartTail), Data: s.text, Binary: s.binary})
		return err
	})
	if err != nil && !errors.Is(err, ErrExists) {
		return contents{}, fmt.Errorf("create ConfigMap %q: %w", w.name.tailName(), err)
	}
	return newReader(w).readAll(ctx)
}

// Scratch returns a journal that stores nothing: it gives records places after the given position
// and keeps them in memory. Run must not be called.
func Scratch(id string, position uint64) *Journal {
	return &Journal{
		writer: writer{opts: Options{QueueRecords: math.MaxInt}}, id: id,
		wake: make(chan struct{}, 1), next: link{Position: position},
	}
}
