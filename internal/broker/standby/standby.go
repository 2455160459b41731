// Package standby keeps a book up to date while another replica leads, so that this one need not read the
// whole journal when it takes over.
package standby

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

// Standby follows a journal. It is not safe for concurrent use.
type Standby struct {
	store   journal.Store
	name    string
	options journal.Options
	log     logr.Logger
	// remember is called with each book that is dropped.
	remember func(*ledger.State)
	// book contains only stored events; nil if there is none. If it does not match the journal when this
	// replica takes over, it is dropped.
	book     *replay.Book
	follower *journal.Follower
}

// New returns a Standby that follows the journal with this name. remember gets each book that is
// dropped. If the journal later ends before the end of that book, it was restored from an older state.
func New(store journal.Store, name string, options journal.Options, log logr.Logger, remember func(*ledger.State)) *Standby {
	return &Standby{store: store, name: name, options: options, log: log, remember: remember}
}

// KeepUp reads the new records of the journal.
func (s *Standby) KeepUp(ctx context.Context) error {
	if s.book == nil {
		return s.startFollowing(ctx)
	}
	records, err := s.follower.Next(ctx)
	if err == nil {
		err = s.book.Apply(records)
	} else if !errors.Is(err, journal.ErrDiverged) {
		return err // the follower is still usable, so the next call tries again
	}
	if err != nil {
		s.dropBook()
	}
	return err
}

func (s *Standby) startFollowing(ctx context.Context) error {
	follower, recovery, err := journal.Follow(ctx, s.store, s.name, s.options)
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
	s.book, s.follower = book, follower
	s.log.V(1).Info("following the journal", "journal", recovery.ID, "position", recovery.Head)
	return nil
}

func (s *Standby) dropBook() {
	state := s.book.State
	s.book = nil
	if state.Lineages().Present() != nil {
		s.remember(state)
	}
}

// Open takes over the journal and returns the book at its end. It uses the followed book
// if there is one.
func (s *Standby) Open(ctx context.Context) (*journal.Journal, journal.Recovery, *replay.Book, error) {
	if s.book != nil {
		known := s.book
		j, recovery, err := s.follower.Open(ctx)
		if err == nil {
			s.book = nil
			return j, recovery, known, known.Apply(recovery.Records)
		}
		if !errors.Is(err, journal.ErrDiverged) {
			return nil, recovery, nil, fmt.Errorf("opening the journal: %w", err)
		}
		s.dropBook()
		s.log.Info("the journal is not the one that was followed: reading all of it", "reason", err.Error())
	}
	j, recovery, err := journal.Open(ctx, s.store, s.name, s.options)
	if err != nil {
		return nil, recovery, nil, fmt.Errorf("opening the journal: %w", err)
	}
	book, err := replay.Read(recovery)
	return j, recovery, book, err
}
