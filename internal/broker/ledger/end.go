package ledger

import (
	"fmt"
	"time"
)

// End ends a reservation and starts the release of its placements.
type End struct {
	Name   string    `json:"name"`
	Reason EndReason `json:"reason"`
	// Message explains the reason to people.
	Message string `json:"message,omitempty"`
	// Explanation, if set, says why no cluster could serve the reservation.
	Explanation Explanation `json:"explanation,omitempty"`
}

// EndReason is why a reservation ends.
type EndReason string

// Reasons of an End.
const (
	// EndReleased: the requester or a user released the reservation.
	EndReleased EndReason = "Released"
	// EndExpired: the time of the reservation is over.
	EndExpired EndReason = "Expired"
	// EndFailed: no cluster can serve the reservation, and it may not wait in the queue, or has waited
	// as long as it may.
	EndFailed EndReason = "Failed"
	// EndPreempted: a reservation with a higher priority took its capacity.
	EndPreempted EndReason = "Preempted"
	// EndIdle: the reservation was idle for as long as its policy allows.
	EndIdle EndReason = "Idle"
)

func (e *End) subject() string { return e.Name }

func (e *End) checkAgainst(s *State) error {
	if e.Reason == "" {
		return fmt.Errorf("reservation %q: %w: ended without reason", e.Name, ErrMalformed)
	}
	_, err := s.findLive(e.Name)
	return err
}

func (e *End) applyTo(s *State, at time.Time) {
	r := s.reservations[e.Name]
	s.leaveQueue(r)
	r.EndReason = e.Reason
	r.updateHistory(func(h *History) { h.EndMessage, h.EndedAt, h.EndedBy = e.Message, at, s.shared.internActor(s.by) })
	if e.Explanation != "" {
		r.Explanation = e.Explanation
	}
	r.Changed = s.position
	for i := range r.Placements {
		s.releaseSides(at, r, &r.Placements[i])
	}
}

// Renew postpones the end of a reservation that has no duration.
type Renew struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
	// Repriced is true if Price replaces the price of the placement from now on. Price must be what
	// the provider's present offer gives.
	Repriced bool   `json:"repriced,omitempty"`
	Price    *Price `json:"price,omitempty"`
}

func (e *Renew) subject() string { return e.Name }

func (e *Renew) checkAgainst(s *State) error {
	r, err := s.findLive(e.Name)
	if err != nil || !e.Repriced {
		return err
	}
	p := r.Current()
	if r.Duration != 0 || !r.Stands(p) || r.Beside(p) != nil {
		return fmt.Errorf("reservation %q: %w: it is repriced, and has a duration or no single placement", e.Name, ErrTaken)
	}
	return s.clusters.checkPrice(p.Provider, &r.Request, e.Price)
}

func (e *Renew) applyTo(s *State, _ time.Time) {
	r := s.reservations[e.Name]
	r.Until, r.Changed = e.Until, s.position
	if e.Repriced {
		r.Current().Price = s.shared.internPrice(e.Price)
	}
}
