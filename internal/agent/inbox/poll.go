package inbox

import (
	"context"
	"math"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

const (
	// longPoll is how long the broker may delay its answer until it has news.
	longPoll = 25 * time.Second
	// atOnce is the longest duration of a poll that counts as answered without waiting.
	atOnce = time.Second
	// afterConflict is the pause before a retry when the cache lagged behind another controller
	// of this agent.
	afterConflict = 50 * time.Millisecond
)

// answer is the result of one poll.
type answer struct {
	cursor string
	items  int
}

// poller polls repeatedly and continues at the last cursor.
type poller struct {
	// ask fetches the news since the cursor and applies it. After an error it is called again
	// with the same cursor.
	ask func(ctx context.Context, cursor string) (answer, error)
	// interval is the gap between polls of a broker that does not wait.
	interval time.Duration
	clock    clock.Clock
	log      logr.Logger
}

// pollUntilDone polls until ctx ends. It logs when the broker is lost and found, not every attempt.
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

// newBackoff spaces retries from half a second up to one and a half intervals. The cap is
// short, because a broker that has restarted waits only a limited time for its clusters.
func (p *poller) newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: min(500*time.Millisecond, p.interval), Factor: 2, Jitter: 0.5, Steps: math.MaxInt32, Cap: p.interval}
}
