package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-logr/logr"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// JournalName is the name under which the broker keeps its journal.
const JournalName = "liqo-resource-broker"

// Options of a Broker.
type Options struct {
	// Store is where the journal lives.
	Store journal.Store
	// Journal tunes the journal; its zero value has working defaults.
	Journal journal.Options
	// Version is what ping answers.
	Version string
	Log     logr.Logger
	// Now is the only clock that decides expiry and staleness.
	Now func() time.Time
	// Random is where names come from; nil is crypto/rand.
	Random io.Reader
	// Leads is false once another replica may have taken over; nil means that there is
	// none. Nothing is read from a memory that may be outdated. What is written needs
	// no such question: the journal answers it.
	Leads func() bool
}

// Broker answers agents (it is the server's Broker) and feeds the controllers
// that show its state. Run must be running for it to answer.
type Broker struct {
	opts    Options
	mailbox *mailbox
	feed    *Feed
	gate    *access.Gate
	// warm is nil while there is none. It belongs to Follow and Run, one after the other.
	warm *warm

	// mu guards the following.
	mu   sync.Mutex
	term *term
	// ended is closed and replaced whenever a term begins or ends.
	ended  chan struct{}
	config Config
	// newest is the last cursor of the last term, "" before the first has ended.
	newest string
	// configured is false until config is the administrator's.
	configured bool
}

// New makes a Broker that decides nothing before it gets a configuration.
func New(opts Options) *Broker {
	if opts.Leads == nil {
		opts.Leads = func() bool { return true }
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	return &Broker{
		opts:    opts,
		mailbox: newMailbox(opts.Now),
		feed:    newFeed(),
		gate:    access.NewGate(),
		ended:   make(chan struct{}),
		config:  DefaultConfig(),
	}
}

// Feed tells which reservations and clusters have changed.
func (b *Broker) Feed() *Feed { return b.feed }

const (
	// reopenDelay is how long a broker without journal waits before it tries again.
	reopenDelay = 500 * time.Millisecond
	// repairDelay is how long it waits where only a person can help.
	repairDelay = 15 * time.Second
)

func delayAfter(err error) time.Duration {
	if _, corrupt := errors.AsType[*journal.CorruptError](err); corrupt {
		return repairDelay
	}
	return reopenDelay
}

// Run holds the journal and serves until ctx is done. A journal that fails is
// opened again; in between every call is refused. A journal that cannot be
// trusted (journal.CorruptError) is retried too, since it may be repaired while the
// broker runs.
func (b *Broker) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := b.serveTerm(ctx)
		if ctx.Err() != nil {
			return nil
		}
		delay := delayAfter(err)
		b.opts.Log.Error(err, "no journal: every call is refused until it can be read and written", "retryAfter", delay.String())
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
	return nil
}

// Start is Run, for a controller-runtime manager.
func (b *Broker) Start(ctx context.Context) error { return b.Run(ctx) }

func (b *Broker) serveTerm(ctx context.Context) error {
	j, recovery, book, err := b.open(ctx)
	if err != nil {
		return err
	}
	t := newTerm(b, book, j)

	termCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { t.watchDeadlines(termCtx) })
	running.Go(func() { t.keepCheckpoints(termCtx, recovery.CheckpointPosition) })

	b.begin(t)
	b.opts.Log.Info("serving", "journal", recovery.ID, "position", recovery.Head, "records", len(recovery.Records))
	err = j.Run(ctx)
	b.end(t)
	cancel()
	running.Wait()
	return err
}

func (b *Broker) begin(t *term) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.term = t
	t.start()
	b.feed.begin()
	b.wakeAll()
}

func (b *Broker) end(t *term) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term == t {
		b.term = nil
		if durable := t.durable.Load(); t.state.Branch() != nil && durable >= t.state.Branch().Since {
			b.newest = t.cursorAt(durable)
		}
	}
	b.wakeAll()
}

func (b *Broker) wakeAll() {
	close(b.ended)
	b.ended = make(chan struct{})
}

// Ready is nil while the broker answers.
func (b *Broker) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.current()
	return err
}

// Serving is whether the broker answers. Who only shows its state has nothing to do
// while it does not: Feed tells when it begins.
func (b *Broker) Serving() bool { return b.Ready() == nil }

// current is the term, for who holds mu.
func (b *Broker) current() (*term, error) {
	if b.term == nil || !b.opts.Leads() {
		return nil, errUnavailable()
	}
	return b.term, nil
}

func errUnavailable() *fault.Error {
	e := fault.New(fault.Unavailable, "the broker cannot write its journal now; nothing was changed, try again")
	e.RetryAfter = time.Second
	return e
}

// errNotDurable promises that nothing was changed only where the journal does.
func errNotDurable(cause error) *fault.Error {
	e := errUnavailable()
	if !errors.Is(cause, journal.ErrUnavailable) {
		e.Detail = "the broker lost its journal while it wrote; the same call again tells whether anything was changed"
	}
	return e
}

// Ping implements the server's Broker.
func (b *Broker) Ping(context.Context) (*v1.Pong, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, err := b.current()
	if err != nil {
		return nil, err
	}
	return &v1.Pong{Version: b.opts.Version, ApiVersion: "v1", ApiMinor: v1.Minor, JournalID: t.journal.ID()}, nil
}

// change runs plan on the current term, then waits until everything that plan saw
// and recorded is durable. The wait also covers a plan that records nothing:
// what it read may not be durable yet.
func (b *Broker) change(ctx context.Context, plan func(*term) error) error {
	b.mu.Lock()
	t, err := b.current()
	if err != nil {
		b.mu.Unlock()
		return err
	}
	planErr := plan(t)
	t.wake()
	commit := t.last
	b.mu.Unlock()

	if commit != nil {
		if err := commit.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.opts.Log.V(1).Info("not durable", "error", err.Error())
			return errNotDurable(err)
		}
		t.noteDurable(commit.Position())
	}
	return planErr
}

// Confirm is nil once it is certain that no other replica knows more. Who is about to
// throw something away because the book does not know it asks this first.
func (b *Broker) Confirm(ctx context.Context) error {
	return b.change(ctx, func(t *term) error {
		if !t.settling().IsZero() {
			return t.errRecovering()
		}
		// A record that says nothing can only be written by who has the journal.
		return t.record(ledger.Event{Change: &ledger.Forget{}})
	})
}

// faultOf turns what the ledger refuses into what a caller is told.
func faultOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ledger.ErrUnknown):
		return fault.New(fault.NotFound, "%v", err)
	case errors.Is(err, ledger.ErrMalformed):
		return fault.New(fault.Invalid, "%v", err)
	case errors.Is(err, ledger.ErrOver), errors.Is(err, ledger.ErrTaken):
		return fault.New(fault.Conflict, "%v", err)
	default:
		return err
	}
}
