package replay

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

// Accounts reads the accounts of a broker from the stored journal and the stored periods. It
// changes nothing and needs no running broker. It is not safe for concurrent use.
type Accounts struct {
	// Journal is the ID of the journal.
	Journal string
	store   journal.Store
	cache   *PeriodCache
	name    string
	until   time.Time
	// periods holds, by name, the periods that are not stored, and those that were read. A period
	// without rows is nil.
	periods map[string]*accounts.Period
	// includes reports whether the accounts include the rows of a key.
	includes func(*accounts.Key) bool
	// keptFrom holds the name of the oldest kept period of each span, "" if none was deleted.
	keptFrom map[accounts.Span]string
}

// OpenAccounts replays the journal with the given name. If there is no such journal, the error
// wraps journal.ErrNotFound.
func OpenAccounts(ctx context.Context, store journal.Store, name string) (*Accounts, error) {
	id, book, err := ReadStored(ctx, store, name)
	if err != nil {
		return nil, err
	}
	return NewAccounts(store, name, id, book), nil
}

// NewAccounts returns the accounts in a book that was replayed from a journal. id is the ID of the
// journal.
func NewAccounts(store journal.Store, name, id string, book *Book) *Accounts {
	a := newAccounts(store, name, id, book, book.State.Latest(), func(*accounts.Key) bool { return true })
	for _, span := range accounts.Spans {
		a.addPeriod(book.Costs.Open(span))
	}
	return a
}

// NewOwnAccounts returns the accounts of one cluster: the rows in which it is the requester or the
// provider, until the end of the last full hour. Nothing in them depends on the rows of others. The
// result does not refer to the book, which may change afterwards. cache is that of the broker's term.
func NewOwnAccounts(store journal.Store, cache *PeriodCache, name, id, clusterID string, book *Book) *Accounts {
	a := newAccounts(store, name, id, book, accounts.Hour.StartOf(book.State.Latest()), func(k *accounts.Key) bool {
		return k.Requester == clusterID || k.Provider == clusterID && clusterID != accounts.Others
	})
	a.cache = cache
	month := accounts.Period{Part: accounts.Part{Span: accounts.Month, Start: accounts.Month.StartOf(book.State.Latest())}}
	book.Costs.EachOpen(accounts.Month, func(key accounts.Key, name corev1.ResourceName, f accounts.Figures) {
		if f != (accounts.Figures{}) && a.includes(&key) {
			month.Rows = append(month.Rows, accounts.Row{Key: key, Resource: name, Figures: f})
		}
	})
	a.addPeriod(month)
	return a
}

// newAccounts returns the accounts with the ended periods in the book that are not stored yet.
func newAccounts(store journal.Store, name, id string, book *Book, until time.Time, includes func(*accounts.Key) bool) *Accounts {
	a := &Accounts{
		Journal: id, store: store, name: name, until: until, includes: includes,
		periods: map[string]*accounts.Period{}, keptFrom: map[accounts.Span]string{},
	}
	for _, span := range accounts.Spans {
		a.keptFrom[span] = book.Costs.Closed(span).KeptFrom
	}
	for _, p := range book.Costs.Ended() {
		a.addPeriod(p)
	}
	return a
}

// addPeriod adds the included rows of a period.
func (a *Accounts) addPeriod(p accounts.Period) {
	var rows []accounts.Row
	for i := range p.Rows {
		if a.includes(&p.Rows[i].Key) {
			rows = append(rows, p.Rows[i])
		}
	}
	name := p.Name()
	if p.Rows = rows; len(rows) > 0 {
		a.periods[name] = &p
	} else {
		a.periods[name] = nil
	}
}

// Until returns the time up to which the figures reach.
func (a *Accounts) Until() time.Time { return a.until }

// Read returns the periods of the given parts that have rows. lost lists the parts whose rows were
// deleted when their retention ended, see isLost.
func (a *Accounts) Read(ctx context.Context, parts []accounts.Part) (found []accounts.Period, lost []accounts.Part, err error) {
	if err := a.fetchPeriods(ctx, parts); err != nil {
		return nil, nil, err
	}
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

func (a *Accounts) readPart(ctx context.Context, part accounts.Part) (*accounts.Period, error) {
	err := a.fetchPeriods(ctx, []accounts.Part{part})
	return a.periods[part.Name()], err
}

// maxCachedRows is how many rows a PeriodCache keeps, which are about 10 MB: 90 days of 100 tenants are half of that.
const maxCachedRows = 30_000

// PeriodCache keeps stored periods that were read in one term of a broker. They do not change in that term: the broker
// reads only periods that the journal named before, with their hashes. Periods that the broker deletes meanwhile may
// stay in the cache until the term ends. The zero value is empty, and nil caches nothing. It is safe for concurrent use.
type PeriodCache struct {
	mu      sync.Mutex
	periods map[string]*accounts.Period
	rows    int
}

// readPeriod returns a stored period, as ReadPeriod does. The caller must not change it.
func (c *PeriodCache) readPeriod(ctx context.Context, store journal.Store, book, name string) (*accounts.Period, error) {
	if c == nil {
		return ReadPeriod(ctx, store, book, name)
	}
	c.mu.Lock()
	p := c.periods[name]
	c.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := ReadPeriod(ctx, store, book, name)
	if err != nil || len(p.Rows) > maxCachedRows {
		return p, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows += len(p.Rows); c.periods == nil || c.rows > maxCachedRows {
		c.periods, c.rows = map[string]*accounts.Period{}, len(p.Rows)
	}
	c.periods[name] = p
	return p, nil
}

// concurrentReads is how many stored periods are read at the same time.
const concurrentReads = 8

// fetchPeriods adds the stored periods of those parts that are not in periods yet.
func (a *Accounts) fetchPeriods(ctx context.Context, parts []accounts.Part) error {
	read := make([]*accounts.Period, len(parts))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrentReads)
	for i, part := range parts {
		if _, known := a.periods[part.Name()]; known {
			continue
		}
		group.Go(func() (err error) {
			if read[i], err = a.cache.readPeriod(ctx, a.store, a.name, part.Name()); errors.Is(err, journal.ErrNotFound) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, part := range parts {
		if _, known := a.periods[part.Name()]; known {
			continue
		}
		if a.periods[part.Name()] = nil; read[i] != nil {
			a.addPeriod(*read[i])
		}
	}
	return nil
}

// isLost reports whether the rows of a part that is not stored were deleted. That is assumed if the
// broker no longer keeps such a part, and the day or month around it has rows, or its day is lost.
func (a *Accounts) isLost(ctx context.Context, part accounts.Part) (bool, error) {
	around := accounts.Part{Span: accounts.Month, Start: accounts.Month.StartOf(part.Start)}
	if part.Span == accounts.Hour {
		around = accounts.Part{Span: accounts.Day, Start: accounts.Day.StartOf(part.Start)}
	}
	if part.Span == accounts.Month || part.Name() >= a.keptFrom[part.Span] {
		return false, nil
	}
	if p, err := a.readPart(ctx, around); p != nil || err != nil {
		return p != nil, err
	}
	return a.isLost(ctx, around)
}
