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
	// longPoll is how long the broker is asked to wait for something new.
	longPoll = 25 * time.Second
	// atOnce is how fast an answer is that nobody waited for.
	atOnce = time.Second
	// afterConflict is when to try again where the cache was behind what another
	// controller of this agent wrote.
	afterConflict = 50 * time.Millisecond
)

// answer is what one poll brought.
type answer struct {
	cursor string
	items  int
}

// poller asks again and again, from where it left off.
type poller struct {
	// ask fetches what is new since the cursor and applies it. After an error the
	// same is asked again.
	ask func(ctx context.Context, cursor string) (answer, error)
	// interval is the gap between polls of a broker that does not wait.
	interval time.Duration
	clock    clock.Clock
	log      logr.Logger
}

// run polls until ctx ends. It logs when the broker is lost and found, not every
// try.
func (p *poller) run(ctx context.Context) error {
	cursor, failing := "", false
	backoff := p.newBackoff()
	for ctx.Err() == nil {
		asked := p.clock.Now()
		got, err := p.ask(ctx, cursor)
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsConflict(err):
			p.sleep(ctx, afterConflict)
			continue
		case err != nil:
			if !failing {
				p.log.Info("polling fails, trying again", "reason", err.Error())
			}
			failing = true
			p.sleep(ctx, backoff.Step())
			continue
		case failing:
			p.log.Info("polling works again")
		}
		failing, backoff = false, p.newBackoff()
		stuck := got.items == 0 || got.cursor == cursor
		cursor = got.cursor
		if stuck && p.clock.Since(asked) < atOnce {
			p.sleep(ctx, p.interval)
		}
	}
	return nil
}

func (p *poller) sleep(ctx context.Context, d time.Duration) {
	timer := p.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// newBackoff spreads tries from half a second to the interval and half of it: a broker
// that is back waits only so long for those it has something for.
func (p *poller) newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: min(500*time.Millisecond, p.interval), Factor: 2, Jitter: 0.5, Steps: math.MaxInt32, Cap: p.interval}
}
