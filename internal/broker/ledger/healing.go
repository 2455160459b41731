package ledger

import (
	"fmt"
	"time"
)

// Heal grants a second placement to a reservation whose provider is silent, whose placement is
// recalled, or whose node is no longer Ready. Both placements hold capacity. One of them is given
// up later, and frees its capacity when its provider confirms that the placement is gone.
type Heal struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	// Price is the price to lock for the placement, nil if the provider has no prices.
	Price       *Price      `json:"price,omitempty"`
	Explanation Explanation `json:"explanation,omitempty"`
}

// Reasons for giving up a placement because of its provider or its node. Except with Forgotten, the
// reservation has a second placement at that time.
const (
	// ProviderLost: the provider of the older placement was silent, and another provider now serves
	// the reservation.
	ProviderLost = "ProviderLost"
	// Forgotten: an administrator removed the provider from the broker. This reason does not depend
	// on whether another provider can serve the reservation.
	Forgotten = "ProviderForgotten"
	// NodeLost: the requester reported that the node is no longer Ready, and another provider now
	// serves the reservation. The second condition is needed because the requester itself may be at
	// fault.
	NodeLost = "NodeNotReady"
	// ProviderBack: before the second provider served, the provider of the older placement came
	// back, its recall was withdrawn, or its node became Ready again. So the second placement is
	// given up.
	ProviderBack = "ProviderBack"
)

// HealStep is the next step for a reservation that may have to change its provider, because the
// provider is silent, the placement is recalled, or the node is no longer Ready.
type HealStep string

// The steps of healing. They depend on the book alone, so another replica that takes over continues
// at the same step.
const (
	// HealNothing: nothing can be done now.
	HealNothing HealStep = ""
	// HealBegin: another provider must be found for a second placement.
	HealBegin HealStep = "Begin"
	// HealFinish: the new placement serves; the older one must be given up.
	HealFinish HealStep = "Finish"
	// HealReturn: the older placement may stay and the new one does not serve yet; the new one must
	// be given up.
	HealReturn HealStep = "Return"
)

// Healing returns the next step for a reservation.
//
// Healing begins only if the placement has served; otherwise the placement is given up at its own
// deadline. A reservation stays on its provider if it must make room for another reservation
// anyway, if its request names the provider, or if it is unclaimed. With healing: Wait, it leaves
// the provider only if the placement is recalled.
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
	case r.isCalledBack(older), !s.Cluster(older.Provider).LostSince.IsZero(), older.IsUnready(), older.flapsSince(p):
		return HealNothing
	default:
		return HealReturn
	}
}

// WhyLeft returns the reason for which the older of two placements is given up once the new one
// serves.
func (s *State) WhyLeft(r *Reservation, older *Placement) string {
	switch {
	case r.isCalledBack(older):
		return r.CallBack.Reason()
	case s.Cluster(older.Provider).LostSince.IsZero() && (older.IsUnready() || older.flapsSince(r.Current())):
		return NodeLost
	default:
		return ProviderLost
	}
}

// IsUnready reports whether the node of a placement was Ready once but is not now.
func (p *Placement) IsUnready() bool { return p.EverReady && !p.Ready && !p.NodeSince.IsZero() }

// flapsSince reports whether the node of a placement became Ready after another placement was granted
// in its stead, but was not Ready for long before.
func (p *Placement) flapsSince(newer *Placement) bool {
	return p.Outage != nil && p.Outage.Flaps && p.Outage.Ended >= newer.AssignedAt
}

// Beside returns the newest standing placement of the reservation other than p, nil if there is
// none.
func (r *Reservation) Beside(p *Placement) *Placement {
	for i := len(r.Placements) - 1; i >= 0; i-- {
		if other := &r.Placements[i]; other.Number != p.Number && r.Stands(other) {
			return other
		}
	}
	return nil
}

// Serving returns the newest placement that is acknowledged and whose node is Ready. If there is
// none, it returns the current one.
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
	r, err := s.findLive(h.Name)
	if err != nil {
		return err
	}
	switch {
	case s.Healing(r) != HealBegin:
		return fmt.Errorf("reservation %q: %w: it has no single placement whose provider is silent or calls it back, or whose node is no longer Ready", h.Name, ErrTaken)
	case h.Provider == r.Current().Provider:
		return fmt.Errorf("reservation %q: %w: %q is the provider it leaves", h.Name, ErrTaken, h.Provider)
	}
	return s.clusters.checkGrant(h.Provider, &r.Request, h.Price)
}

func (h *Heal) applyTo(s *State, at time.Time) {
	s.moveTo(at, h.Name, h.Provider, h.Price, h.Explanation)
}

func (cs *clusters) mustLeave(r *Reservation, p *Placement) bool {
	return r.isCalledBack(p) || !r.Patient && (!cs.byID[p.Provider].LostSince.IsZero() || p.IsUnready())
}

// isServing reports whether a placement is confirmed by both sides: the provider has acknowledged
// it and the consumer's node is Ready. A side without an agent need not confirm.
func (cs *clusters) isServing(r *Reservation, p *Placement) bool {
	return (!p.AcknowledgedAt.IsZero() || !cs.hasAgent(p.Provider)) &&
		(p.Ready || !cs.hasAgent(r.Requester))
}
