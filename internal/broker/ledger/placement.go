package ledger

import (
	"fmt"
	"time"
)

// PlacementRef names one placement.
type PlacementRef struct {
	Name      string `json:"name"`
	Placement int32  `json:"placement"`
}

// String is the placement's name.
func (ref PlacementRef) String() string { return PlacementName(ref.Name, ref.Placement) }

// subject serves every change that names its placement by embedding PlacementRef.
func (ref PlacementRef) subject() string { return ref.Name }

func (s *State) placement(ref PlacementRef) (*Reservation, *Placement) {
	r := s.reservations[ref.Name]
	if r == nil {
		return nil, nil
	}
	return r, r.Placement(ref.Placement)
}

func (s *State) checkLive(name string) error {
	r := s.reservations[name]
	if r == nil {
		return fmt.Errorf("reservation %q: %w", name, ErrUnknown)
	}
	if r.EndReason != "" {
		return fmt.Errorf("reservation %q: %w", name, ErrOver)
	}
	return nil
}

func (s *State) checkStanding(ref PlacementRef) error {
	r, p := s.placement(ref)
	if p == nil {
		return fmt.Errorf("placement %s: %w", ref, ErrUnknown)
	}
	if !r.Stands(p) {
		return fmt.Errorf("placement %s: %w", ref, ErrOver)
	}
	return nil
}

// checkLeft: only what has been given up can be gone, so that an agent that says
// Gone by mistake frees nothing.
func (s *State) checkLeft(ref PlacementRef) error {
	r, p := s.placement(ref)
	if p == nil {
		return fmt.Errorf("placement %s: %w", ref, ErrUnknown)
	}
	if r.Stands(p) {
		return fmt.Errorf("placement %s: %w: it still stands", ref, ErrTaken)
	}
	return nil
}

// Move grants another placement on another provider.
type Move struct {
	Name        string      `json:"name"`
	Provider    string      `json:"provider"`
	Explanation Explanation `json:"explanation,omitempty"`
}

func (m *Move) subject() string { return m.Name }

func (m *Move) checkAgainst(s *State) error {
	if err := s.checkLive(m.Name); err != nil {
		return err
	}
	r := s.reservations[m.Name]
	if r.Waiting != nil {
		return fmt.Errorf("reservation %q: %w: it waits", m.Name, ErrTaken)
	}
	if r.Stands(r.Current()) {
		return fmt.Errorf("reservation %q: %w: placement %d still stands", m.Name, ErrTaken, r.Current().Number)
	}
	return s.checkFits(m.Provider, r.Amounts)
}

func (m *Move) applyTo(s *State, at time.Time) {
	s.placeElsewhere(at, m.Name, m.Provider, m.Explanation)
}

// placeElsewhere gives a reservation its next placement.
func (s *State) placeElsewhere(at time.Time, name, provider string, why Explanation) {
	r := s.reservations[name]
	r.Provider, r.Explanation = provider, why
	s.place(at, r, provider)
}

// Acknowledge notes that the provider has accepted a placement.
type Acknowledge struct{ PlacementRef }

func (a *Acknowledge) checkAgainst(s *State) error { return s.checkStanding(a.PlacementRef) }

// applyTo counts as a success where no agent can report that the node is Ready.
func (a *Acknowledge) applyTo(s *State, at time.Time) {
	r, p := s.placement(a.PlacementRef)
	if p.AcknowledgedAt.IsZero() && !s.HasAgent(r.Requester) {
		s.served(at, r, p)
	}
	s.touch(a.PlacementRef, func(p *Placement) { p.acknowledge(at) })
}

// acknowledge keeps the first instant: a provider that repeats itself must not put
// the deadline of the node off.
func (p *Placement) acknowledge(at time.Time) {
	if p.AcknowledgedAt.IsZero() {
		p.AcknowledgedAt = instantOf(at)
	}
}

func (s *State) touch(ref PlacementRef, change func(*Placement)) {
	r, p := s.placement(ref)
	change(p)
	r.Changed = s.position
}

// Withdraw gives one placement up; its capacity stays held until the provider
// says that it is gone.
type Withdraw struct {
	PlacementRef
	Reason string `json:"reason"`
	// Refused is whether the provider itself gave it up.
	Refused bool `json:"refused,omitempty"`
}

// checkWithdraw and checkEnd ask for a reason because a placement without one
// still stands, and what stands must not be given back.
func (w *Withdraw) checkAgainst(s *State) error {
	if w.Reason == "" {
		return fmt.Errorf("placement %s: %w: withdrawn without reason", w.PlacementRef, ErrMalformed)
	}
	return s.checkStanding(w.PlacementRef)
}

func (w *Withdraw) applyTo(s *State, at time.Time) {
	r, p := s.placement(w.PlacementRef)
	s.recordLeft(at, r, p, w)
	p.Withdrawn, p.Ready = w.Reason, false
	if p.Number < r.last() || r.History != nil {
		r.remember(func(h *History) { h.Left = p.Number })
	}
	r.Provider, r.Changed = r.Current().Provider, s.position
	s.giveUp(at, r, p)
}

// giveUp settles the sides of a placement that no agent speaks for: nobody made
// anything there, and nobody would ever confirm that it is gone. It is recorded
// now because an agent that enrols later must not bring an old placement back.
func (s *State) giveUp(at time.Time, r *Reservation, p *Placement) {
	s.providing(at, p.Provider, false, func(c *Conduct) { c.settle(at, r.Requester, PlacementName(r.Name, p.Number)) })
	if r.Notice != nil && r.Notice.Placement == p.Number {
		r.Notice = nil
	}
	if r.isCalledBack(p) {
		r.remember(func(h *History) { h.CallBack = nil })
	}
	r.forsake(p)
	if !s.HasAgent(p.Provider) {
		s.free(r, p)
	}
	if !s.HasAgent(r.Requester) || r.Unclaimed {
		p.ConsumerGone = true
	}
	if last := r.Current(); r.Stands(last) && last.Amounts != nil && r.Beside(last) == nil {
		r.agree(last, last.Amounts) // what the other one had agreed to is of no use
	}
}

// ProviderGone notes that the provider of a placement has taken everything down. It
// gives the capacity back.
type ProviderGone struct{ PlacementRef }

func (g *ProviderGone) checkAgainst(s *State) error { return s.checkLeft(g.PlacementRef) }

func (g *ProviderGone) applyTo(s *State, at time.Time) {
	r, p := s.placement(g.PlacementRef)
	s.keptWithin(at, r, p)
	s.free(r, p)
}

func (s *State) free(r *Reservation, p *Placement) {
	r.Changed = s.position
	if p.ProviderGone {
		return
	}
	p.ProviderGone = true
	s.clusters[p.Provider].drop(PlacementName(r.Name, p.Number))
}

// ConsumerGone notes that the requester has taken its side of a placement down.
type ConsumerGone struct{ PlacementRef }

func (g *ConsumerGone) checkAgainst(s *State) error { return s.checkLeft(g.PlacementRef) }

func (g *ConsumerGone) applyTo(s *State, _ time.Time) {
	s.touch(g.PlacementRef, func(p *Placement) { p.ConsumerGone = true })
}
