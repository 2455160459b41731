package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

// Accounts reads the accounts of a broker from the stored journal and the stored periods. It
// changes nothing and needs no running broker. It is not safe for concurrent use.
type Accounts struct {
	// Journal is the ID of the journal.
	Journal string
	store   journal.Store
	name    string
	book    *Book
	// stored caches the names of the stored periods of each span, oldest first.
	stored map[accounts.Span][]string
}

// OpenAccounts replays the journal with the given name. If there is no such journal, the error
// wraps journal.ErrNotFound.
func OpenAccounts(ctx context.Context, store journal.Store, name string) (*Accounts, error) {
	_, recovery, err := journal.Follow(ctx, store, name, journal.Options{})
	if err != nil {
		return nil, err
	}
	book, err := Read(recovery)
	if err != nil {
		return nil, err
	}
	return NewAccounts(store, name, recovery.ID, book), nil
}

// NewAccounts returns the accounts in a book that was replayed from a journal. id is the ID of the
// journal.
func NewAccounts(store journal.Store, name, id string, book *Book) *Accounts {
	return &Accounts{Journal: id, store: store, name: name, book: book, stored: map[accounts.Span][]string{}}
}

// Until returns the time of the latest event, up to which the figures reach.
func (a *Accounts) Until() time.Time { return a.book.State.Latest() }

// Read returns the periods of the given parts that have rows. lost lists the parts whose rows were
// deleted when their retention ended. A part counts as lost if it is older than all stored periods
// of its span, and its month has rows.
func (a *Accounts) Read(ctx context.Context, parts []accounts.Part) (found []accounts.Period, lost []accounts.Part, err error) {
	for _, part := range parts {
		p, err := a.readPart(ctx, part)
		if err != nil {
			return nil, nil, err
		}
		if p != nil {
			found = append(found, *p)
			continue
		}
		gone, err := a.isLost(ctx, part)
		if err != nil {
			return nil, nil, err
		}
		if gone {
			lost = append(lost, part)
		}
	}
	return found, lost, nil
}

// readPart returns the period of a part. It returns nil if the period has no rows or is no longer
// stored.
func (a *Accounts) readPart(ctx context.Context, part accounts.Part) (*accounts.Period, error) {
	if open := a.book.Costs.Open(part.Span); open.Start.Equal(part.Start) {
		if len(open.Rows) == 0 {
			return nil, nil
		}
		return &open, nil
	}
	ended := a.book.Costs.Ended()
	if i := slices.IndexFunc(ended, func(p accounts.Period) bool { return p.Name() == part.Name() }); i >= 0 {
		return &ended[i], nil
	}
	p, err := ReadPeriod(ctx, a.store, a.name, part.Name())
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	return p, err
}

// isLost reports whether the rows of a part that is not stored were deleted. That is assumed if the
// part is older than all stored periods of its span, and its month has rows.
func (a *Accounts) isLost(ctx context.Context, part accounts.Part) (bool, error) {
	if part.Span == accounts.Month {
		return false, nil
	}
	names, err := a.storedOf(ctx, part.Span)
	if err != nil || len(names) > 0 && names[0] <= part.Name() {
		return false, err
	}
	month, err := a.readPart(ctx, accounts.Part{Span: accounts.Month, Start: accounts.Month.StartOf(part.Start)})
	return month != nil, err
}

func (a *Accounts) storedOf(ctx context.Context, span accounts.Span) ([]string, error) {
	if names, known := a.stored[span]; known {
		return names, nil
	}
	names, err := storedPeriods(ctx, a.store, a.name, span)
	if err != nil {
		return nil, fmt.Errorf("accounts of %s: %w", a.name, err)
	}
	a.stored[span] = names
	return names, nil
}
