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
	// memberBodies is how many bytes of request bodies one caller may have in flight: one body of the largest size.
	// Parsing a body takes about twenty times its size in memory.
	memberBodies = maxBody
	// totalBodies is how many bytes of request bodies all callers together may have in flight.
	totalBodies = 32 * maxBody
	// smallestBody is the least number of bytes that is counted for an in-flight body. Bodies up to this size do not
	// count against bodyRate: the rate of requests limits them.
	smallestBody = 4 << 10

	// bodyRate is how many bytes of request bodies one caller may send per second over time, and bodyBurst how many
	// at once. Handling 1 MiB takes about 100 ms of one processor, during which others wait. At this rate they wait
	// 0.6 % of the time, too little to show in the 99th percentile of their latency. A provider that advertises a body
	// of the largest size every 30 s sends 35 KiB per second, and it may announce as much when it starts.
	bodyRate  rate.Limit = 64 << 10
	bodyBurst            = 2 * maxBody

	// valueBytes limits how many JSON values a body may have: one for every valueBytes bytes, besides freeValues.
	// Honest bodies have fewer values, because a name or an amount takes more bytes. A body of empty lists and
	// objects takes a hundred times its size in memory.
	valueBytes = 8
	// freeValues is the number of values that a body of any length may have.
	freeValues = 256
)

// bodies limits the request bodies that the server reads and handles: the in-flight bytes per caller and in total,
// and the bytes per second of each caller.
type bodies struct {
	now         func() time.Time
	each, total int64
	rate        rate.Limit

	// mu guards the following fields.
	mu      sync.Mutex
	senders map[string]*sender
	sum     int64
}

// sender counts the request bodies of one caller.
type sender struct {
	inFlight int64
	limiter  *rate.Limiter
}

func newBodies(now func() time.Time) *bodies {
	return &bodies{now: now, each: memberBodies, total: totalBodies, rate: bodyRate, senders: map[string]*sender{}}
}

// takeRoom reserves room for a body of size bytes until done is called.
func (b *bodies) takeRoom(caller string, size int64) (done func(), err error) {
	counted := max(size, smallestBody)
	b.mu.Lock()
	defer b.mu.Unlock()
	from := b.senderOf(caller)
	if from.inFlight+counted > b.each {
		return nil, tooMany("bodies", time.Second, "member %q has %d of %d bytes of request bodies in flight and sends %d more: wait for the answers",
			caller, from.inFlight, b.each, counted)
	}
	if b.sum+counted > b.total {
		return nil, tooMany("", time.Second, "%d of %d bytes of request bodies are in flight: retry", b.sum, b.total)
	}
	if wait := from.spendBytes(size, b.now()); wait > 0 {
		return nil, tooMany("bodyRate", wait, "member %q sends more than %d bytes of request bodies per second: send fewer or smaller requests",
			caller, int64(b.rate))
	}
	from.inFlight += counted
	b.sum += counted
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sum -= counted
		from.inFlight -= counted
	}, nil
}

// senderOf returns the counters of a caller. mu must be locked.
func (b *bodies) senderOf(caller string) *sender {
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

// forgetIdle drops senders without a body in flight. It keeps the other senders, because their bytes are still
// counted. mu must be locked.
func (b *bodies) forgetIdle() {
	for caller, from := range b.senders {
		if from.inFlight == 0 {
			delete(b.senders, caller)
		}
	}
}

// spendBytes takes size bytes from the sender's rate. If the rate is exceeded, it takes nothing and returns the time to
// wait.
func (s *sender) spendBytes(size int64, now time.Time) time.Duration {
	if size <= smallestBody {
		return 0
	}
	reserved := s.limiter.ReserveN(now, int(min(size, bodyBurst)))
	wait := reserved.DelayFrom(now)
	if wait > 0 {
		reserved.CancelAt(now)
	}
	return wait
}

// checkDensity refuses JSON with too many values for its length, see valueBytes.
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
			fault.New(fault.Invalid, "body of %d bytes has %d values, at most %d are allowed", len(raw), values, most)}
	}
	return nil
}

// drainTimeout is how long the server reads the rest of a refused body after it has sent the answer. Closing the
// connection with unread data would reset it, and the caller could lose the answer.
const drainTimeout = 250 * time.Millisecond

// trackedBody records whether a request's body was read to its end.
type trackedBody struct {
	io.ReadCloser
	now   func() time.Time
	ended bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF // readers of net/http do not wrap io.EOF
	return n, err
}

// stopReading lets the answer go out before the whole body of the request was read. By default, net/http reads the
// rest of a body first, however slowly the caller sends it. With "Connection: close", net/http answers first and
// reads the rest afterwards; stopReading limits this to drainTimeout.
func stopReading(w http.ResponseWriter, r *http.Request) {
	body, ok := r.Body.(*trackedBody)
	if !ok || body.ended || r.ProtoMajor != 1 {
		return // HTTP/2 resets the stream
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(body.now().Add(drainTimeout)) // without deadline support, WriteTimeout ends the read
}
