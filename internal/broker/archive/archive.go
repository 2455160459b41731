// Package archive stores what the journal does not keep: ended periods of the accounts, ended
// reservations that the book has forgotten, and signed heads of the journal. Each is stored first and
// then recorded in the journal, so that a step that fails can be repeated.
package archive

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

// Session is what the archive needs of the broker's session.
type Session interface {
	// Now returns the present time, in UTC.
	Now() time.Time
	// Settled calls read with the book under the broker's lock. It does not call read if the session
	// has ended, or while new records could hide that the journal was restored from an older state.
	Settled(read func(*replay.Book) error) error
	// Record writes an event, within Settled.
	Record(e ledger.Event) error
	// Owned returns, within Settled, the last commit of this term. Once it is durable, this replica owns
	// the journal, and every later leader knows the same events.
	Owned() (*journal.Commit, error)
	// Commit writes a change and returns once it is durable. It returns an error if the session has
	// ended.
	Commit(ctx context.Context, change ledger.Change) error
	// Retention returns how long the accounts are kept, BatchSize the number of ended reservations in a
	// batch.
	Retention() Retention
	BatchSize() int
}

// Archive stores objects beside the journal.
type Archive struct {
	session Session
	store   journal.Store
	// name is the name of the journal, id its ID.
	name, id string
	// storing is held while periods or batches are stored: two callers would record the same one, and the second fail.
	storing sync.Mutex
}

// New returns the archive of the journal with this name and ID, whose objects are in the store.
func New(s Session, store journal.Store, name, id string) *Archive {
	return &Archive{session: s, store: store, name: name, id: id}
}

func (a *Archive) putObjects(ctx context.Context, objects []journal.Object) error {
	for _, obj := range objects {
		if err := a.putObject(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// dropObjects deletes the objects with these labels, except those for which isKept returns true.
func (a *Archive) dropObjects(ctx context.Context, labels map[string]string, isKept func(name string) bool) error {
	stored, err := a.store.List(ctx, labels)
	if err != nil {
		return err
	}
	for _, obj := range stored {
		if isKept(obj.Name) {
			continue
		}
		if err := a.store.Delete(ctx, obj.Name); err != nil && !errors.Is(err, journal.ErrNotFound) {
			return err
		}
	}
	return nil
}

// putObject creates an object. It replaces an object of the same name with other content, which a
// replica wrote whose records were lost.
func (a *Archive) putObject(ctx context.Context, obj journal.Object) error {
	_, err := a.store.Create(ctx, obj)
	if !errors.Is(err, journal.ErrExists) {
		return err
	}
	known, err := a.store.Get(ctx, obj.Name)
	if err != nil {
		return err
	}
	if replay.IsSamePart(known, obj) {
		return nil
	}
	if err := a.store.Delete(ctx, obj.Name); err != nil {
		return err
	}
	_, err = a.store.Create(ctx, obj)
	return err
}
