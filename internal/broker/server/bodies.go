package server

import (
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// memberBodies is how many bytes of request bodies one caller may have under way:
	// the largest body once. What is made of a body takes about twenty times its size.
	memberBodies = maxBody
	// totalBodies is the same for all callers together.
	totalBodies = 32 * maxBody
	// smallestBody is what a body counts at least.
	smallestBody = 4 << 10
	// valueBytes is how long the values of a body are on average at least. Names and
	// amounts take more; a body of empty lists and objects takes a hundred times its size
	// once it is read.
	valueBytes = 8
	// freeValues are not looked at.
	freeValues = 256
)

// bodies bounds the bytes of request bodies that are being read or worked on.
type bodies struct {
	each, total int64

	// mu guards the following.
	mu    sync.Mutex
	under map[string]int64
	sum   int64
}

func newBodies() *bodies {
	return &bodies{each: memberBodies, total: totalBodies, under: map[string]int64{}}
}

// take reserves room for a body of size bytes until done is called.
func (b *bodies) take(caller string, size int64) (done func(), err error) {
	size = max(size, smallestBody)
	b.mu.Lock()
	defer b.mu.Unlock()
	if under := b.under[caller]; under+size > b.each {
		return nil, tooMany("bodies", time.Second, "member %q has %d of %d bytes of request bodies under way, and sends %d more: wait for the answers",
			caller, under, b.each, size)
	}
	if b.sum+size > b.total {
		return nil, tooMany("", time.Second, "%d of %d bytes of request bodies are under way: ask again", b.sum, b.total)
	}
	b.under[caller] += size
	b.sum += size
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sum -= size
		if b.under[caller] -= size; b.under[caller] == 0 {
			delete(b.under, caller)
		}
	}, nil
}

// checkDensity refuses JSON that is nearly all structure.
func checkDensity(raw []byte) error {
	values, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '[' || c == '{'):
			values++
		}
	}
	if most := freeValues + len(raw)/valueBytes; values > most {
		return &statusError{http.StatusRequestEntityTooLarge,
			fault.New(fault.Invalid, "body of %d bytes has %d values: at most %d are read", len(raw), values, most)}
	}
	return nil
}

// unread is how long the rest of a body may take that is of no use any more. The answer has
// been sent by then; what is on its way is taken off the connection, so that it does not cut
// the answer off.
const unread = 250 * time.Millisecond

// incoming notes whether a request's body was read to its end.
type incoming struct {
	io.ReadCloser
	now   func() time.Time
	ended bool
}

func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF //nolint:errorlint // readers of net/http return it bare
	return n, err
}

// stopReading has the answer not wait for the rest of the request's body: net/http reads on
// before it answers, however slowly the body comes.
func stopReading(w http.ResponseWriter, r *http.Request) {
	body, ok := r.Body.(*incoming)
	if !ok || body.ended || r.ProtoMajor != 1 {
		return // over HTTP/2 the stream is reset
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(body.now().Add(unread)) // without support WriteTimeout ends it
}
