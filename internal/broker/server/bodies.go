package server

import (
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// memberBodies is how many bytes of request bodies one caller may have under way:
	// the largest body once. Reading a body takes about twenty times its size in memory.
	memberBodies = maxBody
	// totalBodies is the same for all callers together.
	totalBodies = 32 * maxBody
	// smallestBody is the least that a body under way counts.
	smallestBody = 4 << 10

	// bodyRate is how many bytes of request bodies one caller may send a second over time,
	// and bodyBurst how many at once. Checking 512 KiB against the API description takes
	// about a twentieth of a second of one processor. A provider of 4,096 placements, the
	// most there may be, sends 1 MiB every 30 s.
	bodyRate  rate.Limit = 512 << 10
	bodyBurst            = 8 * maxBody

	// valueBytes is the least average length of a body's values. Names and amounts take
	// more; a body of empty lists and objects takes a hundred times its size in memory.
	valueBytes = 8
	// freeValues is how many values a body of any length may have.
	freeValues = 256
)

// bodies bounds the request bodies that the server reads and works on: the bytes under
// way of one caller and of all, and the bytes a second of one caller.
type bodies struct {
	now         func() time.Time
	each, total int64
	rate        rate.Limit

	// mu guards the following.
	mu      sync.Mutex
	senders map[string]*sender
	sum     int64
}

// sender is what bodies counts of one caller.
type sender struct {
	underWay int64
	limiter  *rate.Limiter
}

func newBodies(now func() time.Time) *bodies {
	return &bodies{now: now, each: memberBodies, total: totalBodies, rate: bodyRate, senders: map[string]*sender{}}
}

// take reserves room for a body of size bytes until done is called.
func (b *bodies) take(caller string, size int64) (done func(), err error) {
	counted := max(size, smallestBody)
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.sender(caller)
	if from.underWay+counted > b.each {
		return nil, tooMany("bodies", time.Second, "member %q has %d of %d bytes of request bodies under way, and sends %d more: wait for the answers",
			caller, from.underWay, b.each, counted)
	}
	if b.sum+counted > b.total {
		return nil, tooMany("", time.Second, "%d of %d bytes of request bodies are under way: ask again", b.sum, b.total)
	}
	if wait := from.spend(size, b.now()); wait > 0 {
		return nil, tooMany("bodyRate", wait, "member %q sends more than %d bytes of request bodies a second: send fewer or smaller requests",
			caller, int64(b.rate))
	}
	from.underWay += counted
	b.sum += counted
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sum -= counted
		from.underWay -= counted
	}, nil
}

// sender needs mu.
func (b *bodies) sender(caller string) *sender {
	if from, ok := b.senders[caller]; ok {
		return from
	}
	if len(b.senders) >= maxClients {
		b.forgetIdle()
	}
	from := &sender{limiter: rate.NewLimiter(b.rate, bodyBurst)}
	b.senders[caller] = from
	return from
}

// forgetIdle needs mu. A caller with a body under way is kept: its bytes must count until
// the body is done.
func (b *bodies) forgetIdle() {
	for caller, from := range b.senders {
		if from.underWay == 0 {
			delete(b.senders, caller)
		}
	}
}

// spend takes size bytes from the caller's rate, or returns how long they are too early.
func (s *sender) spend(size int64, now time.Time) time.Duration {
	reserved := s.limiter.ReserveN(now, int(min(size, bodyBurst)))
	wait := reserved.DelayFrom(now)
	if wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
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
