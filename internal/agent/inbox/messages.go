package inbox

import (
	"context"
	"math"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
)

const (
	// longPoll is how long the broker may hold a poll until it has news.
	longPoll = 25 * time.Second
	// If the answer to a poll arrives within atOnce, the broker did not wait for news.
	atOnce = time.Second
	// afterConflict is the pause before a retry after a conflict. A conflict means that the cache does
	// not yet show what another controller has written.
	afterConflict = 50 * time.Millisecond
)

// answer is the result of a poll: the next cursor, and the number of items received.
type answer struct {
	cursor string
	items  int
}

// poller polls the broker repeatedly, each time with the cursor of the previous answer.
type poller struct {
	// ask fetches what is new since the cursor and applies it. After an error it is called again with
	// the same cursor.
	ask func(ctx context.Context, cursor string) (answer, error)
	// interval is the pause between two polls of a broker that answers at once although it has no news.
	interval time.Duration
	clock    clock.Clock
	log      logr.Logger
}

// pollUntilDone logs the first of several failures, and the first success after them.
func (p *poller) pollUntilDone(ctx context.Context) error {
	cursor, failing := "", false
	backoff := p.newBackoff()
	for ctx.Err() == nil {
		asked := p.clock.Now()
		got, err := p.ask(ctx, cursor)
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			p.sleepFor(ctx, afterConflict)
			continue
		case err != nil:
			if !failing {
				p.log.Info("polling failed, retrying", "reason", err.Error())
			}
			failing = true
			p.sleepFor(ctx, backoff.Step())
			continue
		case failing:
			p.log.Info("polling works again")
		}
		failing, backoff = false, p.newBackoff()
		stuck := got.items == 0 || got.cursor == cursor
		cursor = got.cursor
		if stuck && p.clock.Since(asked) < atOnce {
			p.sleepFor(ctx, p.interval)
		}
	}
	return nil
}

func (p *poller) sleepFor(ctx context.Context, d time.Duration) {
	timer := p.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// newBackoff returns the pauses between failed attempts. They grow from half a second to at most
// one and a half intervals. They must be short, because a restarted broker waits only for a limited
// time for its clusters.
func (p *poller) newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: min(500*time.Millisecond, p.interval), Factor: 2, Jitter: 0.5, Steps: math.MaxInt32, Cap: p.interval}
}

// Handler receives the messages of other clusters. It must verify who signed a message, because
// from is only the sender that the broker names. An error of Deliver is logged and does not cause
// another delivery: the sender repeats its message until it gets an answer.
type Handler interface {
	Deliver(ctx context.Context, from string, body []byte) error
}

// Messages receives messages from other clusters while it runs.
type Messages struct {
	messenger transport.Messenger
	handler   Handler
	options   Options
}

// NewMessages returns a receiver that passes messages to handler.
func NewMessages(messenger transport.Messenger, handler Handler, options Options) *Messages {
	return &Messages{messenger: messenger, handler: handler, options: options}
}

// Start receives messages until ctx ends.
func (m *Messages) Start(ctx context.Context) error {
	p := poller{
		ask: m.fetchAnswer, interval: m.options.Interval, clock: m.options.Clock,
		log: log.FromContext(ctx).WithName("inbox").WithValues("of", "messages"),
	}
	return p.pollUntilDone(ctx)
}

func (m *Messages) fetchAnswer(ctx context.Context, cursor string) (answer, error) {
	list, err := m.messenger.ReceiveMessages(ctx, cursor, longPoll)
	if err != nil {
		return answer{}, err
	}
	for i := range list.Messages {
		msg := &list.Messages[i]
		if err := m.handler.Deliver(ctx, msg.From, msg.Body); err != nil {
			log.FromContext(ctx).Info("a message was refused", "from", msg.From, "slot", msg.Slot, "reason", err.Error())
		}
	}
	return answer{cursor: list.Cursor, items: len(list.Messages)}, nil
}
