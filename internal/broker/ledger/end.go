package ledger

import (
	"fmt"
	"time"
)

// End starts the release of a reservation.
type End struct {
	Name   string    `json:"name"`
	Reason EndReason `json:"reason"`
	// Message explains the reason to users.
	Message string `json:"message,omitempty"`
	// Explanation, if set, says why no cluster could serve it.
	Explanation Explanation `json:"explanation,omitempty"`
}

// EndReason is why a reservation ends.
type EndReason string

// Reasons of an End.
const (
	// EndReleased: the requester or a user deleted it.
	EndReleased EndReason = "Released"
	// EndExpired: its time is over.
	EndExpired EndReason = "Expired"
	// EndFailed: no provider is left that could serve it.
	EndFailed EndReason = "Failed"
	// EndPreempted: a reservation with a higher priority took its capacity.
	EndPreempted EndReason = "Preempted"
)

func (e *End) subject() string { return e.Name }

func (e *End) checkAgainst(s *State) error {
	if e.Reason == "" {
		return fmt.Errorf("reservation %q: %w: ended without reason", e.Name, ErrMalformed)
	}
	return s.checkLive(e.Name)
}

func (e *End) applyTo(s *State, at time.Time) {
	r := s.reservations[e.Name]
	s.leaveQueue(r)
	r.EndReason = e.Reason
	r.updateHistory(func(h *History) { h.EndMessage, h.EndedAt = e.Message, at })
	if e.Explanation != "" {
		r.Explanation = e.Explanation
	}
	r.Changed = s.position
	for i := range r.Placements {
		s.releaseSides(at, r, &r.Placements[i])
	}
}

// Renew postpones the end of a reservation without a duration.
type Renew struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
}

func (e *Renew) subject() string { return e.Name }

func (e *Renew) checkAgainst(s *State) error { return s.checkLive(e.Name) }

func (e *Renew) applyTo(s *State, _ time.Time) {
	r := s.reservations[e.Name]
	r.Until, r.Changed = e.Until, s.position
}
