package ledger

import (
	"fmt"
	"slices"
	"time"
)

// Preempt gives notice to placements, the victims, that they have to make room for a waiting
// reservation with a higher priority.
type Preempt struct {
	// Name is the name of the waiting reservation.
	Name string `json:"name"`
	// Priority is the priority of the waiting reservation. It is higher than that of every victim.
	Priority int32 `json:"priority"`
	// Provider is the provider of all victims.
	Provider string   `json:"provider"`
	Victims  []Victim `json:"victims"`
	// Ends is when the placements of the victims are given up.
	Ends time.Time `json:"ends"`
}

// Victim is a placement that has to make room.
type Victim struct {
	PlacementRef
	Priority int32 `json:"priority"`
}

// Preemption is the part of a Preempt that is stored with the waiting reservation.
type Preemption struct {
	Provider string
	Ends     time.Time
	Victims  []PlacementRef
}

// Notice is the part of a Preempt that is stored with each victim.
type Notice struct {
	Placement int32
	// By is the name of the waiting reservation, Priority its priority.
	By       string
	Priority int32
	// Ends is when the placement is given up.
	Ends time.Time
}

// Preempted is the reason for giving up a placement to make room for a reservation with a higher
// priority.
const Preempted = "Preempted"

// Victims returns the reservations that make or made room for a waiting reservation, except those
// that the book has forgotten.
func (s *State) Victims(r *Reservation) []*Reservation {
	if r == nil || r.Waiting == nil || r.Waiting.Preemption == nil {
		return nil
	}
	var out []*Reservation
	for _, ref := range r.Waiting.Preemption.Victims {
		if v := s.reservations[ref.Name]; v != nil {
			out = append(out, v)
		}
	}
	return out
}

// Spent reports whether all victims of a preemption have made room.
func (s *State) Spent(p *Preemption) bool { return !slices.ContainsFunc(p.Victims, s.Held) }

// Held reports whether the provider of a placement still holds capacity for it.
func (s *State) Held(ref PlacementRef) bool {
	_, p := s.findPlacement(ref)
	return p != nil && !p.ProviderGone
}

func (p *Preempt) subject() string { return p.Name }

func (p *Preempt) checkAgainst(s *State) error {
	if len(p.Victims) == 0 || p.Ends.IsZero() {
		return fmt.Errorf("reservation %q: %w: preempts no placement, or at no time", p.Name, ErrMalformed)
	}
	waiting, err := s.findLive(p.Name)
	if err != nil {
		return err
	}
	if w := waiting.Waiting; w == nil || w.Preemption != nil && !s.Spent(w.Preemption) {
		return fmt.Errorf("reservation %q: %w: it does not wait, or other placements make room for it already", p.Name, ErrTaken)
	}
	for i, v := range p.Victims {
		if v.Priority >= p.Priority {
			return fmt.Errorf("placement %s: %w: its priority %d is not below %d", v, ErrMalformed, v.Priority, p.Priority)
		}
		if err := s.checkStanding(v.PlacementRef); err != nil {
			return err
		}
		r, placement := s.findPlacement(v.PlacementRef)
		again := slices.ContainsFunc(p.Victims[:i], func(o Victim) bool { return o.PlacementRef == v.PlacementRef })
		if r.Notice != nil || r.CalledBack() != nil || placement.Provider != p.Provider || again || r.Beside(placement) != nil {
			return fmt.Errorf("placement %s: %w: it makes room for another, or elsewhere, or is called back", v, ErrTaken)
		}
	}
	return nil
}

func (p *Preempt) applyTo(s *State, _ time.Time) {
	preemption := &Preemption{Provider: p.Provider, Ends: p.Ends}
	for _, v := range p.Victims {
		r := s.reservations[v.Name]
		r.Notice = &Notice{Placement: v.Placement, By: p.Name, Priority: p.Priority, Ends: p.Ends}
		r.Changed = s.position
		preemption.Victims = append(preemption.Victims, v.PlacementRef)
	}
	r := s.reservations[p.Name]
	r.Waiting.Preemption, r.Changed = preemption, s.position
}

// withdrawNotices withdraws the notices of victims that have not made room yet.
func (s *State) withdrawNotices(by string, p *Preemption) {
	for _, ref := range p.Victims {
		if r := s.reservations[ref.Name]; r != nil && r.Notice != nil && r.Notice.By == by {
			r.Notice, r.Changed = nil, s.position
		}
	}
}
