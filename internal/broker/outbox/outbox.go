package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail"
)

// Options of an Outbox.
type Options struct {
	// Store and Journal are the store and the name of the journal. JournalOptions says how to read it.
	Store          journal.Store
	Journal        string
	JournalOptions journal.Options
	// Position returns the position of the newest record, and whether this replica serves.
	Position func() (uint64, bool)
	// Secret returns the content of a Secret.
	Secret func(ctx context.Context, name string) (map[string][]byte, error)
	// Warn tells administrators about a problem, with a reason in CamelCase.
	Warn func(reason, note string)
	// Directory is the folder for exported files, "" for none.
	Directory string
	// SignHead signs the end of each file that this process has written; nil to sign nothing.
	SignHead trail.Sign
	// Loopback allows receivers on this machine, such as another container of the broker's pod.
	Loopback bool
	Now      func() time.Time
	Log      logr.Logger
	// Start runs a function in the background until the process ends.
	Start func(run func(context.Context) error) error
}

const (
	// pollInterval is how often the outbox looks for new records while it has channels.
	pollInterval = time.Second
	// reopenDelay is the pause after an attempt to read the journal or the cursors failed.
	reopenDelay = 5 * time.Second
	// storeIdle is the interval at which the cursors are stored while they move without a delivery.
	storeIdle = time.Minute
	// giveUpAfter is how long the outbox tries to deliver an event. After that it drops the event.
	giveUpAfter = 24 * time.Hour
	// firstRetry and lastRetry are the shortest and longest pauses between attempts.
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	// defaultQueue is how many events of a channel wait in memory. Later events stay in the journal until there is room.
	defaultQueue = 10_000
	// maxGroup is the number of events after which no record is added to a message. The events of one record are not
	// split.
	maxGroup = 1000
)

// Outbox delivers events to channels. It costs nothing until SetChannels sets one.
type Outbox struct {
	opts  Options
	post  *post
	files *files
	meter *meter
	// maxQueue is defaultQueue, except in tests.
	maxQueue int
	// send delivers a message: transmit, except in tests.
	send func(ctx context.Context, c *notify.Channel, journalID string, events []notify.Event) error

	// mu guards the fields below.
	mu sync.Mutex
	// channels are the configured channels. configured is true once SetChannels was called.
	channels   []notify.Channel
	configured bool
	started    bool
	// changed is closed and replaced when the channels change.
	changed chan struct{}
	// couriers are the couriers of the channels in the present term; nil until the cursors are read.
	couriers []*courier
	// horizon is the time up to which the couriers have received all events; zero while a new reader reads older
	// records.
	horizon time.Time
	// stored is the oldest position in the stored cursors, 0 while they are unknown.
	stored uint64
	// newest is the last horizon, or when this replica began to serve or got its first channel.
	newest time.Time
}

// New returns an Outbox without channels.
func New(opts Options) *Outbox {
	o := &Outbox{opts: opts, maxQueue: defaultQueue, meter: newMeter(), changed: make(chan struct{})}
	o.post = newPost(&o.opts)
	o.files = newFiles(&o.opts)
	o.send = o.transmit
	return o
}

func (o *Outbox) transmit(ctx context.Context, c *notify.Channel, journalID string, events []notify.Event) error {
	if c.Files != nil {
		return o.files.send(ctx, c, journalID, events)
	}
	return o.post.sendEvents(ctx, c, journalID, events)
}

// SetChannels replaces the channels. It starts the outbox with the first channel.
func (o *Outbox) SetChannels(channels []notify.Channel) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.configured && equality.Semantic.DeepEqual(channels, o.channels) {
		return nil
	}
	if len(o.channels) == 0 {
		o.newest = o.opts.Now()
	}
	o.channels, o.configured = channels, true
	close(o.changed)
	o.changed = make(chan struct{})
	if o.started || len(channels) == 0 {
		return nil
	}
	if err := o.opts.Start(o.runTerms); err != nil {
		return fmt.Errorf("starting notifications: %w", err)
	}
	o.started = true
	return nil
}

// Test sends an event of the type notification.test to a channel, immediately and without retries. The event's ID
// contains id.
func (o *Outbox) Test(ctx context.Context, channel, id string) error {
	o.mu.Lock()
	i := slices.IndexFunc(o.channels, func(c notify.Channel) bool { return c.Name == channel })
	if i < 0 {
		o.mu.Unlock()
		return fmt.Errorf("spec.notifications of the BrokerConfig has no channel %q", channel)
	}
	to := o.channels[i]
	o.mu.Unlock()
	err := o.send(ctx, &to, "test-"+id, []notify.Event{{
		Type: notify.Test, Subject: channel,
		Data: notify.Data{Time: o.opts.Now(), Kind: "test", Actor: "an administrator", Message: "this is a test of channel " + channel},
	}})
	if err != nil {
		return fmt.Errorf("channel %s: %w", channel, err)
	}
	return nil
}

// Keep returns the position of the oldest stored cursor: the next leader continues there, so the journal must keep
// all later records. It is 0 while the cursors are unknown, and the largest number if there is no channel.
func (o *Outbox) Keep() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.configured && len(o.channels) == 0 {
		return ^uint64(0)
	}
	return o.stored
}

func (o *Outbox) runTerms(ctx context.Context) error {
	for ctx.Err() == nil {
		o.mu.Lock()
		channels, changed := o.channels, o.changed
		o.mu.Unlock()
		delay := pollInterval
		if _, serving := o.opts.Position(); !serving {
			o.setNewest(o.opts.Now())
		} else {
			err := o.serveTerm(ctx, channels, changed)
			if err != nil && ctx.Err() == nil && !errors.Is(err, errStopped) {
				o.opts.Log.Error(err, "notifications stopped, retrying", "after", reopenDelay.String())
				delay = reopenDelay
			}
		}
		if len(channels) == 0 {
			// Wait for a channel. If this replica serves, the cursors of the removed channels were just deleted.
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		pauseFor(ctx, delay, changed)
	}
	return nil
}

// pauseFor waits for the time d. It returns earlier if ctx ends or the channel until is closed.
func pauseFor(ctx context.Context, d time.Duration, until <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-until:
	case <-ctx.Done():
	}
}

// errStopped ends a term of the outbox: the channels have changed, or this replica no longer serves.
var errStopped = errors.New("stopped")

// serveTerm delivers events until the channels change, this replica stops serving, or something fails. Without
// channels, it only deletes the stored cursors.
func (o *Outbox) serveTerm(ctx context.Context, channels []notify.Channel, changed <-chan struct{}) error {
	store := &cursors{store: o.opts.Store, journal: o.opts.Journal}
	known, err := store.readAll(ctx)
	if err != nil {
		return err
	}
	if len(channels) == 0 {
		return store.deleteObject(ctx)
	}
	couriers, err := o.makeCouriers(ctx, channels, known)
	if err != nil {
		return err
	}
	// Store the cursors of new channels before anything is delivered, so that a crash cannot skip events.
	if err := store.storeAll(ctx, o.snapshotCursors(couriers), o.opts.Now()); err != nil {
		return err
	}
	o.setCouriers(couriers)
	defer o.setCouriers(nil)
	o.noteStored(store)
	// The couriers stop before the cursors are stored for the last time.
	running, cancel := context.WithCancel(ctx)
	var delivering sync.WaitGroup
	for _, c := range couriers {
		delivering.Go(func() { o.deliverQueue(running, c) })
	}
	err = o.pumpRecords(ctx, couriers, store, changed)
	cancel()
	delivering.Wait()
	if _, serving := o.opts.Position(); serving {
		last, done := context.WithTimeout(context.WithoutCancel(ctx), finalWrite)
		defer done()
		err = errors.Join(err, store.storeAll(last, o.snapshotCursors(couriers), o.opts.Now()))
	}
	return err
}

// finalWrite limits the time to store the cursors when the outbox stops.
const finalWrite = 3 * time.Second

func (o *Outbox) pumpRecords(ctx context.Context, couriers []*courier, store *cursors, changed <-chan struct{}) error {
	var from *reader
	for {
		if from == nil || o.hasRoomBehind(couriers, from) {
			var err error
			if from, err = o.openReader(ctx, couriers); err != nil {
				return err
			}
		}
		now := o.opts.Now()
		position, serving := o.opts.Position()
		if !serving {
			return errStopped
		}
		isWhole, err := o.readUpTo(ctx, from, couriers, position)
		if err != nil {
			return err
		}
		if isWhole {
			o.setHorizon(now, couriers)
		}
		if err := store.storeDue(ctx, o.snapshotCursors(couriers), now); err != nil {
			return err
		}
		o.noteStored(store)
		select {
		case <-changed:
			return errStopped
		default:
		}
		pauseFor(ctx, pollInterval, changed)
		if ctx.Err() != nil {
			return errStopped
		}
	}
}

func (o *Outbox) setCouriers(couriers []*courier) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.couriers = couriers
	o.horizon = time.Time{}
	o.stored = 0
}

func (o *Outbox) setNewest(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.newest = at
}

func (o *Outbox) noteStored(store *cursors) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stored = store.oldestPosition()
}

func (o *Outbox) setHorizon(at time.Time, couriers []*courier) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.horizon, o.newest = at, at
	for _, c := range couriers {
		c.wakeUp()
	}
}

func (o *Outbox) snapshotCursors(couriers []*courier) map[string]cursor {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[string]cursor{}
	for _, c := range couriers {
		out[c.channel.Name] = cursor{Place: c.done, FailingSince: c.failingSince, deliveries: c.deliveries}
	}
	return out
}
