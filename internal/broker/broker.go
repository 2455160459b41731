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
	// Store holds the journal.
	Store journal.Store
	// Journal tunes the journal; its zero value has working defaults.
	Journal journal.Options
	// Version is the version that Ping returns.
	Version string
	Log     logr.Logger
	// Now is the only clock that decides about expiry and staleness.
	Now func() time.Time
	// Random is the source of names; nil is crypto/rand.
	Random io.Reader
	// Leads returns false once another replica may have taken over; nil means that there is no
	// other replica. The broker then stops reading its memory, which may be outdated. Writes
	// need no such check, because the journal rejects them.
	Leads func() bool
}

// Broker answers agents (it implements the server's Broker) and feeds the controllers that show
// its state. It answers while Run is running.
type Broker struct {
	opts    Options
	mailbox *mailbox
	feed    *Feed
	gate    *access.Gate
	// warm is a followed book, nil if there is none. Follow and Run use it in turn.
	warm *warm

	// mu guards the following.
	mu      sync.Mutex
	session *session
	// ended is closed and replaced whenever a session begins or ends.
	ended  chan struct{}
	config Config
	// newest is the last cursor of the previous session, "" before the first session has ended.
	newest string
	// configured is false until the administrator's configuration has been read.
	configured bool
}

// New returns a Broker that decides nothing before it is configured.
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

// Feed returns the names of changed reservations and clusters.
func (b *Broker) Feed() *Feed { return b.feed }

const (
	// reopenDelay is how long a broker without journal waits before it tries again.
	reopenDelay = 500 * time.Millisecond
	// repairDelay is how long the broker waits if only a person can repair the journal.
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
	var failing trouble
	for ctx.Err() == nil {
		err := b.serveTerm(ctx)
		if ctx.Err() != nil {
			return nil
		}
		delay := delayAfter(err)
		failing.logTrouble(b.opts.Log, err, b.opts.Now(), "no journal: every call is refused until it can be read and written")
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
	return nil
}

// Start calls Run, for a controller-runtime manager.
func (b *Broker) Start(ctx context.Context) error { return b.Run(ctx) }

func (b *Broker) serveTerm(ctx context.Context) error {
	j, recovery, book, err := b.openJournal(ctx)
	if err != nil {
		return err
	}
	s := newSession(b, book, j)

	termCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { s.deadlines.watchDue(termCtx) })
	running.Go(func() { s.keepCheckpoints(termCtx, recovery.CheckpointPosition) })

	b.beginSession(s)
	b.opts.Log.Info("serving", "journal", recovery.ID, "position", recovery.Head, "records", len(recovery.Records))
	err = j.Run(ctx)
	b.endSession(s)
	cancel()
	running.Wait()
	return err
}

func (b *Broker) beginSession(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.session = s
	s.start()
	b.feed.signalSession()
	b.wakeAll()
}

func (b *Broker) endSession(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == s {
		b.session = nil
		if durable := s.durable.Load(); s.book.Lineages().Present() != nil && durable >= s.book.Lineages().Present().Since {
			b.newest = s.cursorAt(durable)
		}
	}
	b.wakeAll()
}

func (b *Broker) wakeAll() {
	close(b.ended)
	b.ended = make(chan struct{})
}

// Ready returns nil while the broker answers.
func (b *Broker) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.currentSession()
	return err
}

// Serving reports whether the broker answers. A controller that only shows its state has
// nothing to do before: Feed reports when the broker begins to answer.
func (b *Broker) Serving() bool { return b.Ready() == nil }

// currentSession returns the session. The caller holds mu.
func (b *Broker) currentSession() (*session, error) {
	if b.session == nil || !b.opts.Leads() {
		return nil, errUnavailable()
	}
	return b.session, nil
}

func errUnavailable() *fault.Error {
	e := fault.New(fault.Unavailable, "the broker cannot write its journal now; nothing was changed, try again")
	e.RetryAfter = time.Second
	return e
}

// errNotDurable returns the error for a failed commit. It promises that nothing was changed
// only if the journal says so.
func errNotDurable(cause error) *fault.Error {
	e := errUnavailable()
	if !errors.Is(cause, journal.ErrUnavailable) {
		e.Detail = "the broker lost its journal while writing; repeat the call to learn whether anything was changed"
	}
	return e
}

// Ping implements the server's Broker.
func (b *Broker) Ping(_ context.Context, clusterID string) (*v1.Pong, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.currentSession()
	if err != nil {
		return nil, err
	}
	return &v1.Pong{
		Version: b.opts.Version, ApiVersion: "v1", ApiMinor: v1.Minor, JournalID: s.journal.ID(),
		AdvertisedSecondsAgo: s.clusters.secondsSilent(clusterID),
	}, nil
}

// commitPlan runs plan on the current session, then waits until all events that plan read or
// recorded are durable. It waits even if plan records nothing, because an event that plan read
// may not be durable yet.
func (b *Broker) commitPlan(ctx context.Context, plan func(*session) error) error {
	b.mu.Lock()
	s, err := b.currentSession()
	if err != nil {
		b.mu.Unlock()
		return err
	}
	planErr := plan(s)
	s.queue.serveWaiting()
	commit := s.last
	b.mu.Unlock()

	if commit != nil {
		if err := commit.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.opts.Log.V(1).Info("not durable", "error", err.Error())
			return errNotDurable(err)
		}
		s.noteDurable(commit.Position())
	}
	return planErr
}

// Confirm returns nil once this replica has proved it still owns the journal. Call it before
// deleting an object the ledger does not know.
func (b *Broker) Confirm(ctx context.Context) error {
	return b.commitPlan(ctx, func(s *session) error {
		if !s.recovery.recoveryDeadline().IsZero() {
			return s.recovery.errRecovering()
		}
		// Only the owner of the journal can write a record, even an empty one.
		return s.record(ledger.Event{Change: &ledger.Forget{}})
	})
}

// faultOf converts an error of the ledger to the fault that a caller gets.
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
