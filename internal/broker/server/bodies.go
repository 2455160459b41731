package server

import (
	"io"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// bodyRate is how many bytes of request bodies one caller may send per second over time, and bodyBurst how many
	// at once. Parsing a body takes about twenty times its size in memory, and handling 1 MiB takes about 100 ms of
	// one processor, during which others wait. At this rate they wait 0.6 % of the time, too little to show in the
	// 99th percentile of their latency. A provider that advertises a body of the largest size every 30 s sends 35 KiB
	// per second, and it may announce as much when it starts.
	bodyRate  rate.Limit = 64 << 10
	bodyBurst            = 2 * maxBody
	// freeBody is the size up to which bodies do not count against bodyRate: the rate of requests limits them.
	freeBody = 4 << 10

	// valueBytes limits how many JSON values a body may have: one for every valueBytes bytes, besides freeValues.
	// Honest bodies have fewer values, because a name or an amount takes more bytes. A body of empty lists and
	// objects takes a hundred times its size in memory.
	valueBytes = 8
	// freeValues is the number of values that a body of any length may have.
	freeValues = 256
)

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

// trackedBody records when a request's body was read to its end.
type trackedBody struct {
	io.ReadCloser
	now   func() time.Time
	ended time.Time // zero before
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.ended.IsZero() { // readers of net/http do not wrap io.EOF
		b.ended = b.now()
	}
	return n, err
}

// stopReading lets the answer go out before the whole body of the request was read. By default, net/http reads the
// rest of a body first, however slowly the caller sends it. With "Connection: close", net/http answers first and
// reads the rest afterwards; stopReading limits this to drainTimeout.
func stopReading(w http.ResponseWriter, r *http.Request) {
	body, ok := r.Body.(*trackedBody)
	if !ok || !body.ended.IsZero() || r.ProtoMajor != 1 {
		return // HTTP/2 resets the stream
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(body.now().Add(drainTimeout)) // without deadline support, WriteTimeout ends the read
}
