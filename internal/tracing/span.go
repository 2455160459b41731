// Package tracing describes what broker and agents do for a reservation as spans of one trace.
//
// The broker and both agents write into the same trace without passing anything along: the trace's ID follows
// from the ID of the broker's journal and the name of the reservation. A span is made when the work that it
// describes is over. Until then, only the beginning of this work has to be kept. The ID of a span follows
// from its trace, name, placement and beginning. A span that is sent twice, for example because the journal
// was replayed, therefore is the same span.
//
//	reservation                  broker    until the node is Ready for the first time
//	├─ queue                     broker    while the request waited for capacity
//	├─ deliver                   broker    one placement, from its grant until its node is Ready
//	├─ acknowledge               broker    one placement, until the provider has accepted it
//	├─ decide, …, await slice    provider  one placement, see docs/tracing.md
//	├─ peer, set up node         consumer  one placement, see docs/tracing.md
//	├─ release                   broker    until nothing of the reservation is left
//	├─ drain and remove          consumer  one placement, from its end until nothing of it is left there
//	└─ clean up                  provider  one placement, from its end until nothing of it is left there
//
// Package otlp sends spans to a collector.
package tracing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"
)

// Root is the name of the span that has all others of its trace as children.
const Root = "reservation"

// Span is something that took time for one reservation, and that is over.
type Span struct {
	// Name says what took the time, for example "acknowledge". It is Root for the root of the trace.
	Name string
	// Journal is the ID of the broker's journal, and Reservation the name of the reservation. They
	// determine the trace.
	Journal, Reservation string
	// Placement is the number of the placement that the span is about, 0 for the whole reservation.
	Placement int32
	Began     time.Time
	Ended     time.Time
	// Requester and Provider are cluster IDs, "" if not known or not concerned.
	Requester, Provider string
	// Failure says why the step failed, "" if it did not.
	Failure string
}

// TraceID is the ID of a trace as OpenTelemetry defines it.
type TraceID [16]byte

// String returns the ID in hexadecimal.
func (t TraceID) String() string { return hex.EncodeToString(t[:]) }

// SpanID is the ID of a span as OpenTelemetry defines it.
type SpanID [8]byte

// TraceOf returns the ID of the trace of a reservation: the first 16 bytes of the SHA-256 hash of journal
// ID, slash and name.
func TraceOf(journal, reservation string) TraceID {
	sum := sha256.Sum256([]byte(journal + "/" + reservation))
	return TraceID(sum[:16])
}

// Trace returns the ID of the span's trace.
func (s *Span) Trace() TraceID { return TraceOf(s.Journal, s.Reservation) }

// ID returns the span's ID. The ID of a root does not depend on when it began, because agents must
// know it.
func (s *Span) ID() SpanID {
	if s.Name == Root {
		return RootOf(s.Trace())
	}
	began := binary.BigEndian.AppendUint64(nil, uint64(s.Began.UnixNano())) //nolint:gosec // only identifies
	return hashSpan(s.Trace(), s.Name+"/"+strconv.Itoa(int(s.Placement))+"/"+string(began))
}

// RootOf returns the ID of the root span of a trace.
func RootOf(trace TraceID) SpanID { return hashSpan(trace, Root) }

func hashSpan(trace TraceID, text string) SpanID {
	sum := sha256.Sum256(append(trace[:], text...))
	return SpanID(sum[:8])
}
