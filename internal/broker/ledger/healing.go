package ledger

import (
	"fmt"
	"time"
)

// Heal grants a second placement to a reservation whose provider is silent or has recalled it, or
// whose node is no longer Ready.
// Both placements hold capacity. The one that is given up holds it until its provider confirms
// that it is gone.
type Heal struct {
	Name        string      `json:"name"`
	Provider    string      `json:"provider"`
	Explanation Explanation `json:"explanation,omitempty"`
}

// Reasons for giving up one of two standing placements.
const (
	// ProviderLost: the provider was silent, and another one now serves the reservation.
	ProviderLost = "ProviderLost"
	// NodeLost: the requester reported that the node is no longer Ready, and another provider now
	// serves the reservation. Without that, the requester may be at fault.
	NodeLost = "NodeNotReady"
	// ProviderBack: before the second provider served, the first one called again or withdrew
	// its recall.
	ProviderBack = "ProviderBack"
)

// HealStep is the next step for a reservation whose provider is or was silent, or has recalled
// it.
type HealStep string

// Steps of healing. They follow from the book alone, so a broker that takes over continues at
// the same step.
const (
	// HealNothing: no step is possible, or another event has to come first.
	HealNothing HealStep = ""
	// HealBegin: find another provider.
	HealBegin HealStep = "Begin"
	// HealFinish: the new placement serves; give the older one up.
	HealFinish HealStep = "Finish"
	// HealReturn: the older placement may stay and the new one does not serve yet; give the new
	// one up.
	HealReturn HealStep = "Return"
)

// Healing returns the next step for a reservation.
//
// Healing begins only if the placement has served; otherwise the placement is given up at its
// own deadline. A reservation stays on its provider if it must make room anyway, if it asked
// for one provider, or if it is unclaimed. Patience (healing: Wait) does not apply to a recall.
func (s *State) Healing(r *Reservation) HealStep {
	p := r.Current()
	if !r.Stands(p) || r.Waiting != nil {
		return HealNothing
	}
	older := r.Beside(p)
	switch {
	case older == nil:
		served := !p.AcknowledgedAt.IsZero() && (p.EverReady || !s.HasAgent(r.Requester))
		if !s.clusters.mustLeave(r, p) || !served || r.Unclaimed || r.Notice != nil || r.Target != "" {
			return HealNothing
		}
		return HealBegin
	case s.clusters.isServing(r, p):
		return HealFinish
	case r.isCalledBack(older), !s.Cluster(older.Provider).LostSince.IsZero(), older.IsUnready():
		return HealNothing
	default:
		return HealReturn
	}
}

// WhyLeft returns the reason for giving up the older of two placements once the new one serves.
func (s *State) WhyLeft(r *Reservation, older *Placement) string {
	switch {
	case r.isCalledBack(older):
		return Recalled
	case s.Cluster(older.Provider).LostSince.IsZero() && older.IsUnready():
		return NodeLost
	default:
		return ProviderLost
	}
}

// IsUnready reports whether the node of a placement was Ready and no longer is.
func (p *Placement) IsUnready() bool { return p.EverReady && !p.Ready && !p.NodeSince.IsZero() }

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
		return fmt.Errorf("reservation %q: %w: it has no single placement whose provider is silent or calls it back, or whose node is no longer Ready", h.Name, ErrTaken)
	case h.Provider == r.Current().Provider:
		return fmt.Errorf("reservation %q: %w: %q is the provider it leaves", h.Name, ErrTaken, h.Provider)
	}
	return s.clusters.checkFits(h.Provider, r.Amounts)
}

func (h *Heal) applyTo(s *State, at time.Time) {
	s.moveTo(at, h.Name, h.Provider, h.Explanation)
}

// mustLeave reports whether another placement has to replace this one.
func (cs *clusters) mustLeave(r *Reservation, p *Placement) bool {
	return r.isCalledBack(p) || !r.Patient && (!cs.byID[p.Provider].LostSince.IsZero() || p.IsUnready())
}

// isServing reports whether both sides that have an agent have confirmed a placement.
func (cs *clusters) isServing(r *Reservation, p *Placement) bool {
	return (!p.AcknowledgedAt.IsZero() || !cs.hasAgent(p.Provider)) &&
		(p.Ready || !cs.hasAgent(r.Requester))
}
