package ledger

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// PlacementRef identifies one placement by its reservation and its number.
type PlacementRef struct {
	Name      string `json:"name"`
	Placement int32  `json:"placement"`
}

// String returns the placement's name.
func (ref PlacementRef) String() string { return brokerv1alpha1.PlacementName(ref.Name, ref.Placement) }

// Ref returns the reference to a placement of the reservation.
func (r *Reservation) Ref(p *Placement) PlacementRef {
	return PlacementRef{Name: r.Name, Placement: p.Number}
}

// subject implements Change for every type that embeds PlacementRef.
func (ref PlacementRef) subject() string { return ref.Name }

// Move grants a reservation whose placement was given up a new placement, usually on another
// provider.
type Move struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// Price is the price to lock for the placement, nil if the provider has no prices.
	Price       *Price      `json:"price,omitempty"`
	Explanation Explanation `json:"explanation,omitempty"`
}

func (m *Move) subject() string { return m.Name }

func (m *Move) checkAgainst(s *State) error {
	r, err := s.findLive(m.Name)
	if err != nil {
		return err
	}
	if r.Waiting != nil {
		return fmt.Errorf("reservation %q: %w: it waits", m.Name, ErrTaken)
	}
	if r.Stands(r.Current()) {
		return fmt.Errorf("reservation %q: %w: placement %d still stands", m.Name, ErrTaken, r.Current().Number)
	}
	return s.clusters.checkGrant(m.Provider, &r.Request, m.Price)
}

func (m *Move) applyTo(s *State, at time.Time) {
	s.moveTo(at, m.Name, m.Provider, m.Price, m.Explanation)
}

// Acknowledge records that the provider has accepted a placement.
type Acknowledge struct{ PlacementRef }

func (a *Acknowledge) checkAgainst(s *State) error { return s.checkStanding(a.PlacementRef) }

// applyTo counts the acknowledgement as a success of the provider if the requester has no agent.
// Otherwise the success counts when the requester's agent reports that the node is Ready.
func (a *Acknowledge) applyTo(s *State, at time.Time) {
	r, p := s.findPlacement(a.PlacementRef)
	if p.AcknowledgedAt.IsZero() && !s.HasAgent(r.Requester) {
		s.clusters.noteServed(at, r, p)
	}
	s.changePlacement(a.PlacementRef, func(p *Placement) { p.noteAcknowledged(at) })
}

// noteAcknowledged stores the time of the first acknowledgement. Later ones do not change it, so a
// provider cannot postpone the node's deadline by repeating its report.
func (p *Placement) noteAcknowledged(at time.Time) {
	if p.AcknowledgedAt.IsZero() {
		p.AcknowledgedAt = instantOf(at)
	}
}

// Withdraw gives up one placement. The placement holds its capacity until ProviderGone.
type Withdraw struct {
	PlacementRef
	Reason string `json:"reason"`
	// Refused is true if the provider itself gave the placement up.
	Refused bool `json:"refused,omitempty"`
}

// checkAgainst requires a reason, because a placement without one counts as not given up.
func (w *Withdraw) checkAgainst(s *State) error {
	if w.Reason == "" {
		return fmt.Errorf("placement %s: %w: withdrawn without reason", w.PlacementRef, ErrMalformed)
	}
	return s.checkStanding(w.PlacementRef)
}

func (w *Withdraw) applyTo(s *State, at time.Time) {
	r, p := s.findPlacement(w.PlacementRef)
	s.clusters.blameProvider(at, r, p, w)
	p.Withdrawn, p.WithdrawnAt, p.Ready = w.Reason, instantOf(at), false
	if p.Number < r.lastNumber() || r.History != nil {
		r.updateHistory(func(h *History) { h.Left = p.Number })
	}
	r.Provider, r.Changed = r.Current().Provider, s.position
	s.releaseSides(at, r, p)
}

// ProviderGone records that the provider of a placement has removed everything that belongs to the
// placement. It frees the capacity.
type ProviderGone struct{ PlacementRef }

func (g *ProviderGone) checkAgainst(s *State) error { return s.checkLeft(g.PlacementRef) }

func (g *ProviderGone) applyTo(s *State, at time.Time) {
	r, p := s.findPlacement(g.PlacementRef)
	s.clusters.noteKeptWithin(at, r, p)
	s.freeCapacity(r, p)
}

// ConsumerGone records that the requester has removed its side of a placement.
type ConsumerGone struct{ PlacementRef }

func (g *ConsumerGone) checkAgainst(s *State) error { return s.checkLeft(g.PlacementRef) }

func (g *ConsumerGone) applyTo(s *State, _ time.Time) {
	s.changePlacement(g.PlacementRef, func(p *Placement) { p.ConsumerGone = true })
}

func (s *State) findPlacement(ref PlacementRef) (*Reservation, *Placement) {
	r := s.reservations[ref.Name]
	if r == nil {
		return nil, nil
	}
	return r, r.Placement(ref.Placement)
}

// findLive returns a reservation, or an error if it is unknown or has ended.
func (s *State) findLive(name string) (*Reservation, error) {
	r := s.reservations[name]
	if r == nil {
		return nil, fmt.Errorf("reservation %q: %w", name, ErrUnknown)
	}
	if r.EndReason != "" {
		return nil, fmt.Errorf("reservation %q: %w", name, ErrOver)
	}
	return r, nil
}

func (s *State) checkStanding(ref PlacementRef) error {
	r, p := s.findPlacement(ref)
	if p == nil {
		return fmt.Errorf("placement %s: %w", ref, ErrUnknown)
	}
	if !r.Stands(p) {
		return fmt.Errorf("placement %s: %w", ref, ErrOver)
	}
	return nil
}

// checkLeft returns an error for a placement that still stands or is not in the book. So an agent
// that reports a standing placement as gone by mistake frees nothing.
func (s *State) checkLeft(ref PlacementRef) error {
	r, p := s.findPlacement(ref)
	if p == nil {
		return fmt.Errorf("placement %s: %w", ref, ErrUnknown)
	}
	if r.Stands(p) {
		return fmt.Errorf("placement %s: %w: it still stands", ref, ErrTaken)
	}
	return nil
}

func (s *State) checkHolds(ref PlacementRef) error {
	_, p := s.findPlacement(ref)
	if p == nil {
		return fmt.Errorf("placement %s: %w", ref, ErrUnknown)
	}
	if p.ProviderGone {
		return fmt.Errorf("placement %s: %w", ref, ErrOver)
	}
	return nil
}

func (s *State) changePlacement(ref PlacementRef, change func(*Placement)) {
	r, p := s.findPlacement(ref)
	change(p)
	r.Changed = s.position
}

func (s *State) moveTo(at time.Time, name, provider string, price *Price, why Explanation) {
	r := s.reservations[name]
	r.Provider, r.Explanation = provider, why
	s.addPlacement(at, r, provider, price)
}

// releaseSides prepares the release of a placement that was given up or whose reservation has ended.
// It marks each side without an agent as gone at once: nothing was set up there, no report will ever
// come, and an agent that enrols later must not revive an old placement. The requester's side of an
// unclaimed reservation is gone as well. releaseSides also ends the notice, recall and idle
// time of the placement, and decides its pending change.
func (s *State) releaseSides(at time.Time, r *Reservation, p *Placement) {
	if i := r.IdleNow(); i != nil && i.Placement == p.Number {
		r.updateHistory(func(h *History) { h.IdleTime = nil })
	}
	if r.Notice != nil && r.Notice.Placement == p.Number {
		r.Notice = nil
	}
	if r.isCalledBack(p) {
		r.updateHistory(func(h *History) { h.CallBack = nil })
	}
	if r.HadNodesCreated(p) {
		r.updateHistory(func(h *History) { h.Provisioning = nil })
	}
	r.dropPending(p)
	if !s.HasAgent(p.Provider) {
		s.freeCapacity(r, p)
	}
	if !s.HasAgent(r.Requester) || r.Unclaimed {
		p.ConsumerGone = true
	}
	if last := r.Current(); r.Stands(last) && last.Amounts != nil && r.Beside(last) == nil {
		r.setAmounts(last, last.Amounts) // drop the amounts to which only the other placement's provider had agreed
	}
}

func (s *State) freeCapacity(r *Reservation, p *Placement) {
	r.Changed = s.position
	if p.ProviderGone {
		return
	}
	p.ProviderGone = true
	s.Cluster(p.Provider).removeHold(brokerv1alpha1.PlacementName(r.Name, p.Number))
}
