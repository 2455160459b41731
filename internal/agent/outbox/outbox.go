package outbox

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// The pause between attempts grows from firstRepeat to lastRepeat. sendTimeout limits a single
// attempt.
const (
	firstRepeat = time.Second
	lastRepeat  = 15 * time.Second
	sendTimeout = 10 * time.Second
)

// Send sends a message or report to the broker. It must return an error only if a retry can help.
type Send func(ctx context.Context) error

// Outbox sends postings (messages and reports) in the background, so that a slow broker does not
// delay controllers. It retries a posting until its Send succeeds, with pauses that grow from 1 s
// to 15 s. A posting added with Repeat is sent again even after a success, until Drop. Postings
// are only in memory: after a restart, controllers post them again according to their objects.
type Outbox struct {
	clock clock.WithTicker
	wake  chan struct{}

	mu       sync.Mutex // protects postings
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

// NewOutbox returns an Outbox. It sends nothing before Start is called.
func NewOutbox(c clock.WithTicker) *Outbox {
	return &Outbox{clock: c, wake: make(chan struct{}, 1), postings: map[string]*posting{}}
}

// Post makes the Outbox call send, for the first time at once, until it returns nil. The Outbox
// then calls taken, which may be nil. Post does nothing if key was already posted with the same
// version. It replaces a posting of key with another version.
func (o *Outbox) Post(key, version string, send Send, taken func()) {
	o.postMessage(key, posting{version: version, send: send, taken: taken})
}

// Repeat is like Post, but the Outbox calls send for the first time after delay, and continues to
// call it after each success, until Drop.
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

// Taken reports whether the posting with this key and version has been sent successfully.
func (o *Outbox) Taken(key, version string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.postings[key]
	return p != nil && p.version == version && p.sent > 0
}

// Drop removes a posting.
func (o *Outbox) Drop(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.postings, key)
}

func (o *Outbox) wakeSender() {
	select {
	case o.wake <- struct{}{}:
	default: // the sender is already due to wake up
	}
}

// Start sends postings until ctx ends. It returns once all calls of Send have finished.
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

// sendDue starts sending all postings that are due. It returns how long to wait until the next one
// is due.
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
