// Package traces makes the spans of reservations that are derived from the events of the broker.
package traces

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
)

// traces makes the broker's spans of reservations, see package tracing. It derives them from the same
// events as the metrics, so the durations agree.
type traces struct {
	journal string
	// record receives each finished span.
	record func(tracing.Span)
}

// New returns the observer of a term. It passes each finished span to record, which must not wait.
// journal is the ID of the journal.
func New(journal string, record func(tracing.Span)) term.Observer { return &traces{journal, record} }

func (t *traces) Observe(e term.Event) {
	for _, r := range e.Several { // their cluster was forgotten
		if r.Over() && !r.Closed {
			t.recordSpan(t.spanOf(r, e.At), "release", r.EndedAt, "")
		}
	}
	r := e.Changed
	if r == nil {
		return
	}
	whole := t.spanOf(r, e.At)
	if !e.Prior.Waiting.IsZero() && r.Waiting == nil {
		t.recordSpan(whole, "queue", e.Prior.Waiting, string(r.EndReason))
	}
	switch change := e.Change.(type) {
	case *ledger.Acknowledge:
		if !e.Prior.Acknowledged {
			t.recordPlacement(whole, r.Placement(change.Placement), "acknowledge", "")
		}
	case *ledger.NodeReady:
		if p := r.Placement(change.Placement); p.EverReady && !e.Prior.Ready {
			t.recordPlacement(whole, p, "deliver", "")
			if !wasReadyElsewhere(r, p) {
				t.recordSpan(whole, tracing.Root, r.CreatedAt.Time(), "")
			}
		}
	case *ledger.Withdraw:
		if p := r.Placement(change.Placement); !p.EverReady {
			t.recordPlacement(whole, p, "deliver", p.Withdrawn)
		}
	case *ledger.End:
		t.recordEnd(whole, r)
	}
	if e.Prior.Phase == ledger.Releasing && r.Phase() != ledger.Releasing {
		t.recordSpan(whole, "release", r.EndedAt, "")
	}
}

func (t *traces) spanOf(r *ledger.Reservation, ended time.Time) tracing.Span {
	return tracing.Span{Journal: t.journal, Reservation: r.Name, Requester: r.Requester, Ended: ended}
}

// wasReadyElsewhere reports whether another placement of a reservation has been Ready.
func wasReadyElsewhere(r *ledger.Reservation, p *ledger.Placement) bool {
	for i := range r.Placements {
		if other := &r.Placements[i]; other != p && other.EverReady {
			return true
		}
	}
	return false
}

func (t *traces) recordEnd(whole tracing.Span, r *ledger.Reservation) {
	if wasReadyElsewhere(r, nil) {
		return
	}
	why := string(r.EndReason) // not the message, in which members write what they like
	if p := r.Current(); p != nil && p.Withdrawn == "" {
		t.recordPlacement(whole, p, "deliver", why)
	}
	t.recordSpan(whole, tracing.Root, r.CreatedAt.Time(), why)
}

func (t *traces) recordPlacement(span tracing.Span, p *ledger.Placement, name, failure string) {
	span.Placement, span.Provider = p.Number, p.Provider
	t.recordSpan(span, name, p.AssignedAt.Time(), failure)
}

// recordSpan records a span, unless its beginning is unknown because a restored journal does not have it.
func (t *traces) recordSpan(span tracing.Span, name string, began time.Time, failure string) {
	if began.IsZero() {
		return
	}
	span.Name, span.Began, span.Failure = name, began, failure
	t.record(span)
}
