package tracing

import (
	"strconv"
	"sync"
	"time"
)

// Steps makes spans of the steps that placements go through in one agent. It keeps the current step of
// each placement in memory. So a step during which the agent restarts has a span that begins with the
// restart. A nil Steps does nothing.
type Steps struct {
	journal func() string
	record  func(Span)

	mu    sync.Mutex // guards steps
	steps map[string]step
}

type step struct {
	name  string
	began time.Time
}

// NewSteps returns Steps that pass each finished step to record. journal returns the ID of the broker's
// journal, or "" while that is unknown; steps that end until then have no span.
func NewSteps(journal func() string, record func(Span)) *Steps {
	return &Steps{journal: journal, record: record, steps: map[string]step{}}
}

// Note records in which step a placement is now; "" means in none, for example while it is in use.
// at names the placement; its fields Name, Began and Ended are ignored. If the placement was in
// another step before, that step is over: Note passes its span, with the other fields of at, to
// record. at.Failure says why that step failed.
func (s *Steps) Note(at Span, name string, now time.Time) {
	if s == nil {
		return
	}
	key := at.Reservation + "/" + strconv.Itoa(int(at.Placement))
	s.mu.Lock()
	last, known := s.steps[key]
	switch {
	case last.name == name:
		s.mu.Unlock()
		return
	case name == "":
		delete(s.steps, key)
	default:
		s.steps[key] = step{name, now}
	}
	s.mu.Unlock()
	if at.Journal = s.journal(); !known || at.Journal == "" {
		return
	}
	at.Name, at.Began, at.Ended = last.name, last.began, now
	s.record(at)
}
