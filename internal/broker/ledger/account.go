package ledger

import (
	"fmt"
	"time"
)

// Observe records that the broker was serving at the time of the event. The accounts learn only from
// events that time has passed. So the broker records an Observe if nothing else has happened for some
// minutes and the accounts are not empty. A longer time without events then means that no broker was
// serving.
type Observe struct{}

func (*Observe) subject() string { return "" }

func (*Observe) checkAgainst(*State) error { return nil }

func (*Observe) applyTo(*State, time.Time) {}

// ClosePeriod records that the rows of a period of the accounts are stored outside of the journal.
type ClosePeriod struct {
	// Period is the name of the period, for example day-2026-11-20. Hash is the SHA-256 of its
	// encoded rows, in hexadecimal.
	Period string `json:"period"`
	Hash   string `json:"hash"`
	// KeptFrom is the name of the oldest period that the broker keeps, among the periods of the same
	// length (hours, days or months). The broker deletes older ones once this event is recorded.
	KeptFrom string `json:"keptFrom,omitempty"`
}

func (*ClosePeriod) subject() string { return "" }

func (c *ClosePeriod) checkAgainst(*State) error {
	if c.Period == "" || len(c.Hash) != 64 {
		return fmt.Errorf("%w: period %q is closed with hash %q", ErrMalformed, c.Period, c.Hash)
	}
	return nil
}

func (*ClosePeriod) applyTo(*State, time.Time) {}

// CloseBatch records that a batch of ended reservations is stored outside of the journal.
type CloseBatch struct {
	// Batch is the number of the batch. Rows is the number of its reservations, and Hash is the
	// SHA-256 of its rows in hexadecimal.
	Batch uint64 `json:"batch"`
	Rows  int    `json:"rows"`
	Hash  string `json:"hash"`
	// KeptFrom is the number of the oldest batch that the broker keeps. The broker deletes older ones
	// once this event is recorded.
	KeptFrom uint64 `json:"keptFrom,omitempty"`
}

func (*CloseBatch) subject() string { return "" }

func (c *CloseBatch) checkAgainst(*State) error {
	if c.Batch == 0 || c.Rows < 1 || len(c.Hash) != 64 {
		return fmt.Errorf("%w: batch %d of the history is closed with %d rows and hash %q", ErrMalformed, c.Batch, c.Rows, c.Hash)
	}
	return nil
}

func (*CloseBatch) applyTo(*State, time.Time) {}
