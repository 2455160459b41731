package webhooks

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
)

// errSlow is the reason why a review is given up whose bytes are needed for others.
var errSlow = errors.New("others needed the memory of this incomplete review")

// inFlight limits the bytes of the reviews that are read or answered at the same time. It counts
// bytes as they arrive. If none are free, the review that has been incomplete for the longest time
// makes room for younger ones, so a slow sender delays no others.
type inFlight struct {
	mu   sync.Mutex
	free int
	// reading are the incomplete reviews, oldest first.
	reading []*review
	// released is closed when bytes become free.
	released chan struct{}
}

func newInFlight(limit int) *inFlight {
	return &inFlight{free: limit, released: make(chan struct{})}
}

// review is the body of a request, as far as it has arrived.
type review struct {
	ctx      context.Context //nolint:containedctx // an io.Writer has no parameter for it
	inFlight *inFlight
	body     net.Buffers
	held     int
	// interrupt makes the read of the body fail. givenUp is true after that.
	interrupt func()
	givenUp   bool
}

func (f *inFlight) beginReview(ctx context.Context, interrupt func()) *review {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &review{ctx: ctx, inFlight: f, interrupt: interrupt}
	f.reading = append(f.reading, r)
	return r
}

// Write adds bytes that have arrived. It waits until they may be held.
func (r *review) Write(p []byte) (int, error) {
	for {
		released, err := r.holdBytes(len(p))
		if err != nil {
			return 0, err
		}
		if released == nil {
			r.body = append(r.body, bytes.Clone(p))
			return len(p), nil
		}
		select {
		case <-released:
		case <-r.ctx.Done():
			return 0, r.ctx.Err()
		}
	}
}

// holdBytes counts n more bytes of the review. If they may not be held yet, it returns a channel that is
// closed when bytes become free.
func (r *review) holdBytes(n int) (released <-chan struct{}, err error) {
	f := r.inFlight
	f.mu.Lock()
	defer f.mu.Unlock()
	for !r.givenUp && f.free < n && f.reading[0] != r {
		oldest := f.reading[0]
		oldest.givenUp = true
		oldest.interrupt()
		f.dropReview(oldest)
	}
	switch {
	case r.givenUp:
		return nil, errSlow
	case f.free < n:
		return f.released, nil
	}
	f.free -= n
	r.held += n
	return nil, nil
}

// finishReading marks the review as read: it is answered whatever else arrives.
func (r *review) finishReading() error {
	r.inFlight.mu.Lock()
	defer r.inFlight.mu.Unlock()
	if r.givenUp {
		return errSlow
	}
	r.inFlight.reading = removeReview(r.inFlight.reading, r)
	return nil
}

// release gives back the bytes of the review.
func (r *review) release() {
	r.inFlight.mu.Lock()
	defer r.inFlight.mu.Unlock()
	r.inFlight.dropReview(r)
}

// dropReview removes a review and releases its bytes. The caller holds the lock.
func (f *inFlight) dropReview(r *review) {
	f.reading = removeReview(f.reading, r)
	f.free += r.held
	r.held = 0
	close(f.released)
	f.released = make(chan struct{})
}

func removeReview(reviews []*review, r *review) []*review {
	return slices.DeleteFunc(reviews, func(other *review) bool { return other == r })
}
