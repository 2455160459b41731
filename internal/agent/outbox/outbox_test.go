package outbox

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
)

// sendLog records when Send was called, in seconds since the start.
type sendLog struct {
	start time.Time
	fails int
	mu    sync.Mutex // guards at
	at    []float64
}

func (l *sendLog) send(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Since(l.start).Seconds())
	if len(l.at) <= l.fails {
		return errors.New("not now")
	}
	return nil
}

func startOutbox(t *testing.T) *Outbox {
	t.Helper()
	o := NewOutbox(clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { _ = o.Start(ctx); close(stopped) }()
	t.Cleanup(func() { cancel(); <-stopped })
	return o
}

func TestOutboxSends(t *testing.T) {
	tests := map[string]struct {
		fails int
		post  func(*Outbox, Send)
		want  []float64
	}{
		"a posting goes out once": {
			post: func(o *Outbox, s Send) { o.Post("k", "v", s, nil) }, want: []float64{0},
		},
		"a posting is tried until it is taken, ever more rarely": {
			fails: 6, post: func(o *Outbox, s Send) { o.Post("k", "v", s, nil) }, want: []float64{0, 1, 3, 7, 15, 30, 45},
		},
		"the same version is not sent again": {
			post: func(o *Outbox, s Send) { o.Post("k", "v", s, nil); synctest.Wait(); o.Post("k", "v", s, nil) }, want: []float64{0},
		},
		"another version is sent at once": {
			post: func(o *Outbox, s Send) { o.Post("k", "v", s, nil); synctest.Wait(); o.Post("k", "w", s, nil) }, want: []float64{0, 0},
		},
		"a repeated posting goes on": {
			post: func(o *Outbox, s Send) { o.Repeat("k", "v", 0, s) }, want: []float64{0, 1, 3, 7, 15, 30, 45, 60},
		},
		"a delayed posting starts late": {
			post: func(o *Outbox, s Send) { o.Repeat("k", "v", 2*time.Second, s) }, want: []float64{2, 3, 5, 9, 17, 32, 47},
		},
		"a dropped posting stops": {
			post: func(o *Outbox, s Send) { o.Repeat("k", "v", 0, s); time.Sleep(2 * time.Second); o.Drop("k") }, want: []float64{0, 1},
		},
		"a posting dropped before it is due is never sent": {
			post: func(o *Outbox, s Send) { o.Repeat("k", "v", time.Second, s); o.Drop("k") },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, log := startOutbox(t), &sendLog{start: time.Now(), fails: test.fails}
				test.post(o, log.send)
				time.Sleep(time.Until(log.start.Add(61 * time.Second)))
				synctest.Wait()
				if diff := cmp.Diff(test.want, log.at); diff != "" {
					t.Errorf("sent at (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestOutboxTellsWhenAPostingIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, log := startOutbox(t), &sendLog{start: time.Now(), fails: 1}
		var taken time.Duration
		o.Post("k", "v", log.send, func() { taken = time.Since(log.start) })
		synctest.Wait()
		if o.Taken("k", "v") {
			t.Error("taken after a failure")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !o.Taken("k", "v") || taken != time.Second {
			t.Errorf("taken %v after %v, want true after 1s", o.Taken("k", "v"), taken)
		}
		if o.Taken("k", "w") {
			t.Error("another version was taken")
		}
	})
}

func TestOutboxIsNotHeldUpByOneThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, log := startOutbox(t), &sendLog{start: time.Now()}
		o.Post("hangs", "v", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, nil)
		synctest.Wait()
		o.Post("k", "v", log.send, nil)
		synctest.Wait()
		if !o.Taken("k", "v") {
			t.Error("it waits for the other")
		}
	})
}
