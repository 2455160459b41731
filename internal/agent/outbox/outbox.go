package outbox

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Limits of the Outbox.
const (
	firstRepeat = time.Second
	lastRepeat  = 15 * time.Second
	sendTimeout = 10 * time.Second
)

// Send sends one posting to the broker. It returns an error only if a retry can help.
type Send func(ctx context.Context) error

// Outbox sends postings in the background, so that an unresponsive broker delays no reconcile.
// It retries a posting until Send succeeds; a repeating posting continues until Drop. The
// pauses are 1 s, 2 s, 4 s and so on, up to 15 s. Postings are lost with the process:
// controllers post them again from the state of their objects.
type Outbox struct {
	clock clock.WithTicker
	wake  chan struct{}

	mu       sync.Mutex // guards the following
	postings map[string]*posting
}

type posting struct {
	version string
	send    Send
	repeats bool
	taken   func()

	due      time.Time
	interval time.Duration
	sending  bool
	sent     int
}

// NewOutbox returns an Outbox. It sends nothing before Start.
func NewOutbox(c clock.WithTicker) *Outbox {
	return &Outbox{clock: c, wake: make(chan struct{}, 1), postings: map[string]*posting{}}
}

// Post calls send now and until it returns nil, then calls taken. It does nothing if key was
// already posted with that version. Another version replaces the earlier posting.
func (o *Outbox) Post(key, version string, send Send, taken func()) {
	o.postMessage(key, posting{version: version, send: send, taken: taken})
}

// Repeat is like Post, but starts after delay and continues after success, until Drop.
func (o *Outbox) Repeat(key, version string, delay time.Duration, send Send) {
	o.postMessage(key, posting{version: version, send: send, repeats: true, interval: delay})
}

func (o *Outbox) postMessage(key string, p posting) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old := o.postings[key]; old != nil && old.version == p.version {
		return
	}
	p.due, p.interval = o.clock.Now().Add(p.interval), firstRepeat
	o.postings[key] = &p
	o.wakeSender()
}

// Taken reports whether the posting was sent successfully.
func (o *Outbox) Taken(key, version string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.postings[key]
	return p != nil && p.version == version && p.sent > 0
}

// Drop forgets a posting.
func (o *Outbox) Drop(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.postings, key)
}

func (o *Outbox) wakeSender() {
	select {
	case o.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// Start sends until ctx ends, and returns when all sends have finished.
func (o *Outbox) Start(ctx context.Context) error {
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		next := o.sendDue(ctx, &sending)
		timer := o.clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-o.wake:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// sendDue starts all due sends and returns when to run again.
func (o *Outbox) sendDue(ctx context.Context, sending *sync.WaitGroup) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, next := o.clock.Now(), lastRepeat
	for _, p := range o.postings {
		if p.sending || p.isFinished() {
			continue
		}
		if wait := p.due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		p.sending = true
		sending.Go(func() { o.sendPosting(ctx, p) })
	}
	return next
}

func (p *posting) isFinished() bool { return p.sent > 0 && !p.repeats }

func (o *Outbox) sendPosting(ctx context.Context, p *posting) {
	bounded, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err := p.send(bounded)
	if o.finishPosting(p, err) && p.taken != nil {
		p.taken()
	}
}

func (o *Outbox) finishPosting(p *posting, err error) (taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.sending = false
	if err == nil {
		p.sent++
	}
	p.due = o.clock.Now().Add(p.interval)
	p.interval = min(2*p.interval, lastRepeat)
	o.wakeSender()
	return err == nil && !p.repeats
}
