package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

// followEvery is how often a follower reads appended records.
const followEvery = time.Second

// warm is a book that a follower keeps up to date, so that its next session need not read the
// whole journal. It contains only stored events. When a session takes it up, its position in
// the journal proves that. If there is any doubt, the book is dropped.
type warm struct {
	*book
	follower *journal.Follower
}

// Follow keeps a book warm until ctx ends, for the next Run. The two must not run at the same
// time.
func (b *Broker) Follow(ctx context.Context) {
	var failing trouble
	for ctx.Err() == nil {
		pause := followEvery
		switch err := b.keepUp(ctx); {
		case err == nil:
			failing.clearTrouble()
		case ctx.Err() == nil:
			failing.logTrouble(b.opts.Log, err, b.opts.Now(), "cannot follow the journal, retrying: this replica could not take over quickly")
			pause = delayAfter(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (b *Broker) keepUp(ctx context.Context) error {
	if b.warm == nil {
		return b.warmUp(ctx)
	}
	records, err := b.warm.follower.Next(ctx)
	if err == nil {
		err = b.warm.applyRecords(records)
	} else if !errors.Is(err, journal.ErrDiverged) {
		return err // Next can be called again
	}
	if err != nil {
		b.dropWarmBook()
	}
	return err
}

func (b *Broker) warmUp(ctx context.Context) error {
	follower, recovery, err := journal.Follow(ctx, b.opts.Store, JournalName, b.opts.Journal)
	if errors.Is(err, journal.ErrNotFound) {
		return nil // no replica has led yet
	}
	if err != nil {
		return err
	}
	book, err := readBook(recovery)
	if err != nil {
		return err
	}
	b.warm = &warm{book, follower}
	b.opts.Log.V(1).Info("following the journal", "journal", recovery.ID, "position", recovery.Head)
	return nil
}

// dropWarmBook drops the warm book but remembers its cursor. If the journal later ends before that
// cursor, it was restored.
func (b *Broker) dropWarmBook() {
	state := b.warm.state
	b.warm = nil
	if state.Lineages().Present() == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = cursorOf(state, state.Position())
}

// openJournal takes over the journal, with the warm book if there is one.
func (b *Broker) openJournal(ctx context.Context) (*journal.Journal, journal.Recovery, *book, error) {
	if b.warm != nil {
		known := b.warm.book
		j, recovery, err := b.warm.follower.Open(ctx)
		if err == nil {
			b.warm = nil
			return j, recovery, known, known.applyRecords(recovery.Records)
		}
		if !errors.Is(err, journal.ErrDiverged) {
			return nil, recovery, nil, fmt.Errorf("opening the journal: %w", err)
		}
		b.dropWarmBook()
		b.opts.Log.Info("the journal is not the one that was followed: reading all of it", "reason", err.Error())
	}
	j, recovery, err := journal.Open(ctx, b.opts.Store, JournalName, b.opts.Journal)
	if err != nil {
		return nil, recovery, nil, fmt.Errorf("opening the journal: %w", err)
	}
	book, err := readBook(recovery)
	return j, recovery, book, err
}
