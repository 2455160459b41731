package history

import (
	"fmt"
	"slices"
)

// Book holds the rows that are not stored yet, and the newest batch that is. The zero value is an
// empty Book. A Book must not be used concurrently.
type Book struct {
	open   []Row
	closed Closed
}

// Frozen is a copy of a Book for a snapshot.
type Frozen struct {
	Open   []Row  `json:"open,omitempty"`
	Closed Closed `json:"closed,omitzero"`
}

// Restore returns the Book that was frozen. f may be nil, for an empty one.
func Restore(f *Frozen) *Book {
	if f == nil {
		return &Book{}
	}
	return &Book{open: f.Open, closed: f.Closed}
}

// Freeze returns a copy of the Book that later changes do not modify; nil if the Book is empty.
func (b *Book) Freeze() *Frozen {
	if len(b.open) == 0 && b.closed == (Closed{}) {
		return nil
	}
	return &Frozen{slices.Clip(b.open), b.closed}
}

// Add appends a row.
func (b *Book) Add(r Row) { b.open = append(b.open, r) }

// Open returns the rows that are not stored yet, oldest first. The caller must not change them.
func (b *Book) Open() []Row { return b.open }

// Closed returns the newest stored batch.
func (b *Book) Closed() Closed { return b.closed }

// Next returns the next batch: the given number of rows, the oldest that are not stored yet. It
// returns false if there are fewer such rows, or if the number is below 1.
func (b *Book) Next(rows int) (Batch, bool) {
	if rows < 1 || len(b.open) < rows {
		return Batch{}, false
	}
	next := Batch{Number: b.closed.Batch + 1, Rows: b.open[:rows:rows]}
	if b.closed.Batch != 0 {
		before := b.closed.Link
		next.Before = &before
	}
	return next, true
}

// CheckClose returns an error unless c names the batch that Next returns for this number of rows, with
// its hash.
func (b *Book) CheckClose(c Closed, rows int) error {
	next, found := b.Next(rows)
	if !found || next.Number != c.Batch {
		return fmt.Errorf("batch %d of the history is closed with %d rows: the next batch is %d, and %d rows are open", c.Batch, rows, b.closed.Batch+1, len(b.open))
	}
	if c.KeptFrom > c.Batch {
		return fmt.Errorf("batch %d of the history is kept from batch %d", c.Batch, c.KeptFrom)
	}
	text, err := next.Encode()
	if err != nil {
		return err
	}
	if got := Hash(text); got != c.Hash {
		return fmt.Errorf("the rows of batch %d of the history have hash %s, and %s was stored", c.Batch, got, c.Hash)
	}
	return nil
}

// Close drops the given number of rows, the oldest, which are stored in the batch c.
func (b *Book) Close(c Closed, rows int) {
	c.KeptFrom = max(c.KeptFrom, b.closed.KeptFrom)
	b.open, b.closed = slices.Clone(b.open[rows:]), c
}
