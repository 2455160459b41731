package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/feed"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/mailbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/metrics"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/receipts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/standby"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
)

// JournalName is the name under which the broker keeps its journal.
const JournalName = "liqo-resource-broker"

// Options configure a Broker.
type Options struct {
	// Store holds the journal.
	Store journal.Store
	// Journal tunes the journal. Its zero value means the defaults.
	Journal journal.Options
	// Version is the version that Ping returns.
	Version string
	Log     logr.Logger
	// Now returns the current time. Expiry and staleness depend on no other clock.
	Now func() time.Time
	// Random is the source of random names; nil means crypto/rand.
	Random io.Reader
	// Leads reports whether this replica still leads; nil means that it always does. Once it
	// returns false, the broker refuses every call, because its memory may be outdated.
	Leads func() bool
	// Receipts signs the receipts in the broker's answers; nil for answers without receipts.
	Receipts *receipt.Signer
	// MetricsMembers is how many members have metrics of their own; 0 means 200. All other members
	// share the label _other.
	MetricsMembers int
	// RecordSpan receives each span of a reservation once the span is over. It must not wait. It is nil
	// if no spans are wanted.
	RecordSpan func(tracing.Span)
}

// Broker implements server.Broker, which agents call, and answers the controllers that publish its
// state as objects. It answers only while Run is running.
type Broker struct {
	opts    Options
	mailbox *mailbox.Mailbox
	feed    *feed.Feed
	gate    *access.Gate
	meter   *metrics.Meter
	// standby has the book that Follow keeps up to date with the leader's journal. Follow and Run never
	// use it at the same time.
	standby *standby.Standby
	// followed is true once Follow has read the journal.
	followed atomic.Bool
	// opening is true from New or Follow until the first session has begun, or the journal could not be
	// opened. Only then do calls wait: if a later session ends, they are refused at once.
	opening atomic.Bool

	receipts *receipts.Signer

	// batch is the number of ended reservations in one stored batch: archive.DefaultBatch, except in tests.
	batch int

	// mu guards the fields below.
	mu      sync.Mutex
	session *session
	// ended is closed and replaced to wake all waiting calls, for example when a session begins or
	// ends.
	ended  chan struct{}
	config settings.Config
	// newest is a cursor of the newest journal position known from an earlier session or from standby;
	// "" if there is none. If the journal turns out to be shorter, it was restored from an older
	// state.
	newest string
	// configured is false until SetConfig has been called.
	configured bool
}

// New returns a Broker. It makes no decision before SetConfig is called.
func New(opts Options) *Broker {
	if opts.Leads == nil {
		opts.Leads = func() bool { return true }
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	m := metrics.New(opts.MetricsMembers)
	opts.Journal.OnCommit = m.TimeCommit(opts.Now)
	b := &Broker{
		opts:     opts,
		receipts: receipts.New(opts.Receipts, opts.Now, opts.Log),
		meter:    m,
		mailbox:  mailbox.New(opts.Now),
		feed:     feed.New(),
		gate:     access.NewGate(),
		ended:    make(chan struct{}),
		config:   settings.Default(),
		batch:    archive.DefaultBatch,
	}
	b.opening.Store(true)
	b.standby = standby.New(opts.Store, JournalName, opts.Journal, opts.Log, func(dropped *ledger.State) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.newest = recovery.CursorOf(dropped, dropped.Position())
	})
	return b
}

// Feed returns the feed from which controllers read the names of changed reservations and clusters.
func (b *Broker) Feed() *feed.Feed { return b.feed }

// repairDelay is the pause before the broker tries again to open a damaged journal, which only a person
// can repair.
const repairDelay = 15 * time.Second

func delayAfter(err error) time.Duration {
	if _, corrupt := errors.AsType[*journal.CorruptError](err); corrupt {
		return repairDelay
	}
	return term.RetryDelay
}

// Run owns the journal and serves until ctx is done. If the journal fails, Run opens it again.
// Every call is refused until the journal is open again. Run also retries a damaged journal
// (journal.CorruptError), because a person may repair it while the broker runs.
func (b *Broker) Run(ctx context.Context) error {
	var failing term.Trouble
	for ctx.Err() == nil {
		err := b.serveTerm(ctx)
		b.stopOpening()
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, journal.ErrFenced) {
			b.meter.CountConflict()
		}
		failing.Report(b.opts.Log, err, b.opts.Now(), "no journal: every call is refused until it can be read and written")
		select {
		case <-ctx.Done():
		case <-time.After(delayAfter(err)):
		}
	}
	return nil
}

// followEvery is how often a replica that does not lead reads new records.
const followEvery = time.Second

// Follow keeps a book up to date for the next Run until ctx ends. Follow and Run must not run at the same
// time.
func (b *Broker) Follow(ctx context.Context) {
	b.opening.Store(true)
	var failing term.Trouble
	for ctx.Err() == nil {
		pause := followEvery
		switch err := b.standby.KeepUp(ctx); {
		case err == nil:
			b.followed.Store(true)
			failing.Clear()
		case ctx.Err() == nil:
			failing.Report(b.opts.Log, err, b.opts.Now(), "cannot follow the journal, retrying: this replica could not take over quickly")
			pause = delayAfter(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Start calls Run; it implements manager.Runnable of controller-runtime.
func (b *Broker) Start(ctx context.Context) error { return b.Run(ctx) }

func (b *Broker) serveTerm(ctx context.Context) error {
	j, recovery, book, err := b.standby.Open(ctx)
	if err != nil {
		return err
	}
	s := newSession(b, book, j)

	termCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { s.watchDue(termCtx) })
	running.Go(func() { s.keepCheckpoints(termCtx, recovery.CheckpointPosition) })
	running.Go(func() { s.keepStored(termCtx) })
	running.Go(func() { s.keepHeads(termCtx) })

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
	b.opening.Store(false)
	s.startTerm()
	b.feed.SignalSession()
	b.wakeAll()
}

func (b *Broker) endSession(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == s {
		b.session = nil
		if durable := s.durable.Load(); s.book.Lineages().Present() != nil && durable >= s.book.Lineages().Present().Since {
			b.newest = s.CursorAt(durable)
		}
	}
	b.wakeAll()
}

func (b *Broker) stopOpening() {
	b.opening.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wakeAll()
}

// openingTime is the longest time that a call waits for the first session. An elected follower usually
// opens the journal sooner.
const openingTime = 1500 * time.Millisecond

// AwaitOpening implements the server's Broker. Without it, a replica would refuse calls that other
// replicas forward to it between its election and its first session.
func (b *Broker) AwaitOpening(ctx context.Context) {
	if !b.opening.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, openingTime)
	defer cancel()
	for ctx.Err() == nil {
		b.mu.Lock()
		changed := b.ended
		b.mu.Unlock()
		if !b.opening.Load() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (b *Broker) wakeAll() {
	close(b.ended)
	b.ended = make(chan struct{})
}

// Ready returns nil while the broker answers, else an error.
func (b *Broker) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.currentSession()
	return err
}

// ReadyToFollow returns nil once Follow has read the journal, so that this replica can take over within
// moments. Before, it returns an error.
func (b *Broker) ReadyToFollow() error {
	if !b.followed.Load() {
		return errors.New("the journal has not been read yet")
	}
	return nil
}

// Serving reports whether the broker answers. While it does not, controllers that only publish its
// state need to do nothing; Feed.Terms tells them when the broker begins to answer.
func (b *Broker) Serving() bool { return b.Ready() == nil }

// Position returns the position of the newest record, which may not be durable yet, and whether the
// broker answers.
func (b *Broker) Position() (uint64, bool) {
	position := uint64(0)
	serves := b.withSession(func(s *session) { position = s.book.Position() })
	return position, serves
}

// currentSession returns the session, or an error if there is none. The caller holds mu.
func (b *Broker) currentSession() (*session, error) {
	if b.session == nil || !b.opts.Leads() {
		return nil, errUnavailable()
	}
	return b.session, nil
}

func errUnavailable() *fault.Error {
	return fault.New(fault.Unavailable, "the broker cannot write its journal now; nothing was changed, try again").RetryIn(time.Second)
}

// errNotDurable returns the error for a failed commit. It says that nothing was changed only if the
// journal guarantees that.
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
		AdvertisedSecondsAgo: s.SecondsSilent(clusterID),
	}, nil
}

// commitPlan runs plan on the current session. Then it waits until all events that plan read or
// recorded are durable. It waits even if plan recorded nothing, because an event that plan read may
// not be durable yet.
func (b *Broker) commitPlan(ctx context.Context, plan func(*session) error) error {
	b.mu.Lock()
	s, err := b.currentSession()
	if err != nil {
		b.mu.Unlock()
		return err
	}
	planErr := plan(s)
	s.ServeWaiting()
	commit := s.last
	b.mu.Unlock()

	if commit != nil {
		if err := commit.Wait(ctx); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			b.opts.Log.V(1).Info("refusing a call whose events are not stored", "error", err.Error())
			return errNotDurable(err)
		}
		s.noteDurable(commit.Position())
	}
	return planErr
}

// Confirm returns nil once this replica has proved that it still owns the journal. Callers use it
// before they delete an object that the ledger does not know.
func (b *Broker) Confirm(ctx context.Context) error {
	return b.commitPlan(ctx, func(s *session) error {
		if !s.Recovery.SettledAt().IsZero() {
			return s.Recovery.ErrRecovering()
		}
		// Only the owner of the journal can write a record, even an empty one.
		return s.Record(ledger.Event{Change: &ledger.Forget{}})
	})
}
