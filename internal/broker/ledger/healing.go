package ledger

import (
	"fmt"
	"time"
)

// Heal grants a placement beside the one that stands, whose provider is lost or wants it
// back. Both hold capacity: the one that is given up in the end holds it until its
// provider confirms that nothing of it is left.
type Heal struct {
	Name        string      `json:"name"`
	Provider    string      `json:"provider"`
	Explanation Explanation `json:"explanation,omitempty"`
}

// Why a placement is given up of two that stood.
const (
	// ProviderLost: another provider serves the reservation, as nothing was heard of this one.
	ProviderLost = "ProviderLost"
	// ProviderBack: the provider that was lost was heard again first, or the one that called
	// it back has changed its mind.
	ProviderBack = "ProviderBack"
)

// HealStep is what has to happen next to a reservation whose provider is, or was, lost, or
// wants it back.
type HealStep string

// Steps of healing. They follow from the book alone, so that whoever reads it goes on
// where another one stopped.
const (
	// HealNothing: nothing, or another event has to come first.
	HealNothing HealStep = ""
	// HealBegin: find another provider.
	HealBegin HealStep = "Begin"
	// HealFinish: the new placement serves, so the older one goes.
	HealFinish HealStep = "Finish"
	// HealReturn: the older placement may stay, before the new one serves, so that one goes.
	HealReturn HealStep = "Return"
)

// Healing is the next step for a reservation.
//
// It begins only with a placement that has served: any other one is given up for that
// alone. A reservation that has to make room elsewhere anyway, that wants one
// certain provider or that nobody has claimed stays where it is. To wait for a provider
// that wants its capacity back is of no use.
func (s *State) Healing(r *Reservation) HealStep {
	p := r.Current()
	if !r.Stands(p) || r.Waiting != nil {
		return HealNothing
	}
	older := r.Beside(p)
	switch {
	case older == nil:
		served := !p.AcknowledgedAt.IsZero() && (p.EverReady || !s.HasAgent(r.Requester))
		if !s.leaves(r, p) || !served || r.Unclaimed || r.Notice != nil || r.Target != "" {
			return HealNothing
		}
		return HealBegin
	case s.serves(r, p):
		return HealFinish
	case r.isCalledBack(older), !s.clusters[older.Provider].LostSince.IsZero():
		return HealNothing
	default:
		return HealReturn
	}
}

// leaves is whether a placement is to be left for another one.
func (s *State) leaves(r *Reservation, p *Placement) bool {
	return r.isCalledBack(p) || !s.clusters[p.Provider].LostSince.IsZero() && !r.Patient
}

// WhyLeft is why the older of two placements is given up once the new one serves.
func (r *Reservation) WhyLeft(older *Placement) string {
	if r.isCalledBack(older) {
		return Recalled
	}
	return ProviderLost
}

// serves is whether everybody who can speak for a placement has said that it is there.
func (s *State) serves(r *Reservation, p *Placement) bool {
	return (!p.AcknowledgedAt.IsZero() || !s.HasAgent(p.Provider)) &&
		(p.Ready || !s.HasAgent(r.Requester))
}

// Beside is the placement that stands beside another one; nil, as nearly always, if none
// does.
func (r *Reservation) Beside(p *Placement) *Placement {
	for i := len(r.Placements) - 1; i >= 0; i-- {
		if other := &r.Placements[i]; other.Number != p.Number && r.Stands(other) {
			return other
		}
	}
	return nil
}

// Serving is the newest placement that is Ready; where none is, the current one.
func (r *Reservation) Serving() *Placement {
	for i := len(r.Placements) - 1; i >= 0; i-- {
		if p := &r.Placements[i]; r.Stands(p) && p.Ready && !p.AcknowledgedAt.IsZero() {
			return p
		}
	}
	return r.Current()
}

func (h *Heal) subject() string { return h.Name }

func (h *Heal) checkAgainst(s *State) error {
	if err := s.checkLive(h.Name); err != nil {
		return err
	}
	r := s.reservations[h.Name]
	switch {
	case s.Healing(r) != HealBegin:
		return fmt.Errorf("reservation %q: %w: it is not one that is served by a provider alone that is lost or calls it back", h.Name, ErrTaken)
	case h.Provider == r.Current().Provider:
		return fmt.Errorf("reservation %q: %w: %q is the provider that it leaves", h.Name, ErrTaken, h.Provider)
	}
	return s.checkFits(h.Provider, r.Amounts)
}

func (h *Heal) applyTo(s *State, at time.Time) {
	s.placeElsewhere(at, h.Name, h.Provider, h.Explanation)
}
