package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// followEvery is how often a replica that does not lead reads new records.
const followEvery = time.Second

// warm is a book that a replica keeps up to date while another one leads, so that it need not read
// the whole journal when it takes over. It contains only stored events. If it does not match the
// journal at that time, it is dropped.
type warm struct {
	*replay.Book
	follower *journal.Follower
}

// Follow keeps a warm book for the next Run until ctx ends. Follow and Run must not run at the same
// time.
func (b *Broker) Follow(ctx context.Context) {
	var failing term.Trouble
	for ctx.Err() == nil {
		pause := followEvery
		switch err := b.keepUp(ctx); {
		case err == nil:
			failing.Clear()
		case ctx.Err() == nil:
			failing.Report(b.opts.Log, err, b.opts.Now(), "cannot follow the journal, retrying: this replica could not take over quickly")
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
		err = b.warm.Apply(records)
	} else if !errors.Is(err, journal.ErrDiverged) {
		return err // the follower is still usable, so the next call tries again
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
	book, err := replay.Read(recovery)
	if err != nil {
		return err
	}
	b.warm = &warm{book, follower}
	b.opts.Log.V(1).Info("following the journal", "journal", recovery.ID, "position", recovery.Head)
	return nil
}

// dropWarmBook drops the warm book but remembers its cursor. If the journal later ends before that
// cursor, the journal was restored from an older state.
func (b *Broker) dropWarmBook() {
	state := b.warm.State
	b.warm = nil
	if state.Lineages().Present() == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = recovery.CursorOf(state, state.Position())
}

// openJournal takes over the journal and returns the book at its end. It uses the warm book if
// there is one.
func (b *Broker) openJournal(ctx context.Context) (*journal.Journal, journal.Recovery, *replay.Book, error) {
	if b.warm != nil {
		known := b.warm.Book
		j, recovery, err := b.warm.follower.Open(ctx)
		if err == nil {
			b.warm = nil
			return j, recovery, known, known.Apply(recovery.Records)
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
	book, err := replay.Read(recovery)
	return j, recovery, book, err
}
