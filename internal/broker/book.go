package broker

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// book is a ledger replayed from the journal.
type book struct {
	state *ledger.State
	// newest is the time of the newest event after the checkpoint, zero if there is none.
	newest time.Time
}

func readBook(r journal.Recovery) (*book, error) {
	k := &book{state: ledger.New()}
	if r.Checkpoint != nil {
		var err error
		if k.state, err = ledger.Restore(r.Checkpoint); err != nil {
			return nil, err
		}
	}
	return k, k.applyRecords(r.Records)
}

// applyRecords replays records. After an error the book must be dropped.
func (k *book) applyRecords(records []journal.Record) error {
	for _, record := range records {
		var e ledger.Event
		if err := e.UnmarshalJSON(record.Data); err != nil {
			return fmt.Errorf("journal record %d: %w", record.Position, err)
		}
		if err := k.state.Apply(record.Position, &e); err != nil {
			return fmt.Errorf("journal record %d: %w", record.Position, err)
		}
		k.newest = e.At
	}
	return nil
}
