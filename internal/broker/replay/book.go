// Package replay turns the records of the journal into the broker's book: the ledger, the accounts
// of what its reservations cost, and the history of ended reservations. The broker uses it to build
// its book. Other programs use it to read the book from the stored journal without a running broker.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/history"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// Book is a ledger together with the accounts of what its reservations cost, and the history of the
// reservations that it has forgotten. All are replayed from the journal. It is not safe for concurrent
// use.
type Book struct {
	State   *ledger.State
	Costs   *accounts.Book
	History *history.Book
	// Newest is the time of the last record that was replayed after the checkpoint; zero if there
	// was none.
	Newest time.Time
	// list is the administrator's list price, nil if there is none.
	list *ledger.Price
}

// Read replays what a journal contains, and returns the resulting book.
func Read(r journal.Recovery) (*Book, error) {
	k := &Book{State: ledger.New(), Costs: accounts.New(), History: &history.Book{}}
	if r.Checkpoint != nil {
		if err := k.restoreCheckpoint(r.Checkpoint); err != nil {
			return nil, err
		}
	}
	return k, k.Apply(r.Records)
}

// ReadStored replays the stored journal with the given name, and returns its ID and the resulting book. If
// there is no such journal, the error wraps journal.ErrNotFound.
func ReadStored(ctx context.Context, store journal.Store, name string) (id string, book *Book, err error) {
	_, recovery, err := journal.Follow(ctx, store, name, journal.Options{})
	if err != nil {
		return "", nil, err
	}
	book, err = Read(recovery)
	return recovery.ID, book, err
}

// checkpointHead is the first line of a checkpoint: the accounts and the history.
type checkpointHead struct {
	*accounts.Frozen
	History *history.Frozen `json:"history,omitempty"`
}

// restoreCheckpoint decodes a checkpoint: a line with a checkpointHead, followed by the ledger.
func (k *Book) restoreCheckpoint(checkpoint []byte) error {
	line, state, _ := bytes.Cut(checkpoint, []byte("\n"))
	var err error
	if k.State, err = ledger.Restore(state); err != nil {
		return err
	}
	head := checkpointHead{Frozen: &accounts.Frozen{}}
	if err := json.Unmarshal(line, &head); err != nil {
		return fmt.Errorf("reading a snapshot of accounts and history: %w", err)
	}
	k.Costs, k.History = accounts.Restore(head.Frozen), history.Restore(head.History)
	k.list = listPriceIn(k.State.Configuration())
	k.State.Reservations(func(r *ledger.Reservation) {
		if e := k.entryOf(r, r.Metered()); e != nil {
			k.Costs.Resume(e)
		}
	})
	return nil
}

// Frozen is a copy of a book. It can be encoded while the book changes.
type Frozen struct {
	state *ledger.Frozen
	head  checkpointHead
}

// Freeze returns a copy of the book that later events do not change.
func (k *Book) Freeze() *Frozen {
	return &Frozen{k.State.Freeze(), checkpointHead{k.Costs.Freeze(), k.History.Freeze()}}
}

// Encode encodes the copy in the form that restoreCheckpoint reads.
func (f *Frozen) Encode() ([]byte, error) {
	head, err := json.Marshal(f.head)
	if err != nil {
		return nil, fmt.Errorf("writing a snapshot of accounts and history: %w", err)
	}
	state, err := f.state.Bytes()
	if err != nil {
		return nil, err
	}
	return slices.Concat(head, []byte("\n"), state), nil
}

// Apply replays records of the journal. After an error the book must not be used.
func (k *Book) Apply(records []journal.Record) error {
	for _, record := range records {
		var e ledger.Event
		if err := e.UnmarshalJSON(record.Data); err != nil {
			return fmt.Errorf("journal record %d: %w", record.Position, err)
		}
		checked, err := k.State.Check(&e)
		if err == nil {
			err = k.CheckEvent(&e)
		}
		if err != nil {
			return fmt.Errorf("journal record %d: %w", record.Position, err)
		}
		k.ApplyEvent(checked, &e, record.Position)
		k.Newest = e.At
	}
	return nil
}
