package ledger

import (
	"fmt"
	"time"
)

// Heal grants a second placement to a reservation whose provider is silent or has called
// it back. Both hold capacity, and the one that is given up in the end holds it until its
// provider confirms that it is gone.
type Heal struct {
	Name        string      `json:"name"`
	Provider    string      `json:"provider"`
	Explanation Explanation `json:"explanation,omitempty"`
}

// Reasons for giving up one of two placements that stood.
const (
	// ProviderLost: the provider was silent, and another one serves the reservation.
	ProviderLost = "ProviderLost"
	// ProviderBack: the first provider is no longer silent, or has withdrawn its recall,
	// before the second one served.
	ProviderBack = "ProviderBack"
)

// HealStep is the next step for a reservation whose provider is or was silent, or has
// called it back.
type HealStep string

// Steps of healing. They follow from the book alone, so a broker that takes over continues
// where the former one stopped.
const (
	// HealNothing: there is nothing to do, or another event has to come first.
	HealNothing HealStep = ""
	// HealBegin: find another provider.
	HealBegin HealStep = "Begin"
	// HealFinish: the new placement serves; give the older one up.
	HealFinish HealStep = "Finish"
	// HealReturn: the older placement may stay and the new one does not serve yet; give the
	// new one up.
	HealReturn HealStep = "Return"
)

// Healing returns the next step for a reservation.
//
// Healing begins only if the placement has served: one that has not is given up at its own
// deadline. A reservation that must make room anyway, that asked for one provider, or that
// is unclaimed stays where it is. Patience (healing: Wait) does not apply to a recall.
func (s *State) Healing(r *Reservation) HealStep {
	p := r.Current()
	if !r.Stands(p) || r.Waiting != nil {
		return HealNothing
	}
	older := r.Beside(p)
	switch {
	case older == nil:
		served := !p.AcknowledgedAt.IsZero() && (p.EverReady || !s.HasAgent(r.Requester))
		if !s.mustLeave(r, p) || !served || r.Unclaimed || r.Notice != nil || r.Target != "" {
			return HealNothing
		}
		return HealBegin
	case s.isServing(r, p):
		return HealFinish
	case r.isCalledBack(older), !s.clusters[older.Provider].LostSince.IsZero():
		return HealNothing
	default:
		return HealReturn
	}
}

// mustLeave reports whether a placement is to be replaced by another one.
func (s *State) mustLeave(r *Reservation, p *Placement) bool {
	return r.isCalledBack(p) || !s.clusters[p.Provider].LostSince.IsZero() && !r.Patient
}

// WhyLeft returns why the older of two placements is given up once the new one serves.
func (r *Reservation) WhyLeft(older *Placement) string {
	if r.isCalledBack(older) {
		return Recalled
	}
	return ProviderLost
}

// isServing reports whether both sides that have an agent have confirmed a placement.
func (s *State) isServing(r *Reservation, p *Placement) bool {
	return (!p.AcknowledgedAt.IsZero() || !s.HasAgent(p.Provider)) &&
		(p.Ready || !s.HasAgent(r.Requester))
}

// Beside returns the placement that stands beside another one, nil if there is none.
func (r *Reservation) Beside(p *Placement) *Placement {
	for i := len(r.Placements) - 1; i >= 0; i-- {
		if other := &r.Placements[i]; other.Number != p.Number && r.Stands(other) {
			return other
		}
	}
	return nil
}

// Serving returns the newest placement that is Ready, or else the current one.
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
		return fmt.Errorf("reservation %q: %w: it has no single placement whose provider is silent or calls it back", h.Name, ErrTaken)
	case h.Provider == r.Current().Provider:
		return fmt.Errorf("reservation %q: %w: %q is the provider it leaves", h.Name, ErrTaken, h.Provider)
	}
	return s.checkFits(h.Provider, r.Amounts)
}

func (h *Heal) applyTo(s *State, at time.Time) {
	s.moveTo(at, h.Name, h.Provider, h.Explanation)
}
