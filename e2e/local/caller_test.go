package local

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
)

// asCluster returns a transport to the broker that always uses the current certificate of a cluster's agent.
func asCluster(t *testing.T, env *Environment, id string) transport.Transport {
	t.Helper()
	tr, err := env.Transport(id)
	check(t, err)
	t.Cleanup(func() { check(t, tr.Close()) })
	return tr
}

// calls are repeated until stop is called, which returns their number and the errors of those that failed.
type calls struct {
	stop func() (made int, failed []error)
}

// callAllTheTime pings the broker from several callers concurrently, each ten times a second. A call that the
// transport retries is not a failure.
func callAllTheTime(t *testing.T, env *Environment, id string, callers int) calls {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex // guards the fields below
		made   int
		failed []error
	)
	for range callers {
		tr := asCluster(t, env, id)
		wg.Go(func() {
			for tick := time.NewTicker(100 * time.Millisecond); ; {
				_, err := tr.Ping(ctx)
				mu.Lock()
				made++
				if err != nil && ctx.Err() == nil {
					failed = append(failed, err)
				}
				mu.Unlock()
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
				}
			}
		})
	}
	t.Cleanup(cancel)
	return calls{stop: func() (int, []error) {
		cancel()
		wg.Wait()
		return made, failed
	}}
}

// noneLost ends the calls and fails the test if a call failed.
func (c calls) noneLost(t *testing.T) {
	t.Helper()
	made, failed := c.stop()
	t.Logf("%d calls meanwhile, %d failed", made, len(failed))
	if len(failed) > 0 {
		t.Errorf("%d of %d calls failed, the first with: %v", len(failed), made, failed[0])
	}
}
