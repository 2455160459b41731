package ledger

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Pending is a change of amounts that the provider's agent has not answered yet. Until the answer,
// the larger of the old and the new amount is held for each resource, and the consumer may use the
// old amounts.
type Pending struct {
	// Generation is the generation of the Edit that asked for the change.
	Generation int64
	// Placement is the placement whose provider has to answer.
	Placement int32
	Amounts   quantity.Amounts
	// Fallback is the digest of the request that stays in force if the provider refuses.
	Fallback string
}

// Refusal says why the last change of amounts did not take effect.
type Refusal struct {
	Generation int64
	Reason     string
}

// GivenUp is the reason of a Refusal if the provider had not answered the change when the placement
// was given up.
const GivenUp = "its provider had not answered when the placement was given up"

// Wanted returns the amounts of the pending change, or else the amounts of the reservation.
func (r *Reservation) Wanted() quantity.Amounts {
	if r.Pending != nil {
		return r.Pending.Amounts
	}
	return r.Amounts
}

// AgreedWith returns the amounts that the provider of a placement has accepted: those of the last
// change that it accepted, or else those of the grant.
func (r *Reservation) AgreedWith(p *Placement) quantity.Amounts {
	if p.Amounts != nil {
		return p.Amounts
	}
	return r.Amounts
}

// AskedOf returns the change that the provider of a placement has to answer, nil if none.
func (r *Reservation) AskedOf(p *Placement) *Pending {
	if r.Pending == nil || r.Pending.Placement != p.Number {
		return nil
	}
	return r.Pending
}

// HeldBy returns the amounts that a placement locks at its provider: those that the provider has
// accepted or, while it has to answer a change, the larger of these and the requested ones for each
// resource.
func (r *Reservation) HeldBy(p *Placement) quantity.Amounts {
	held, asked := r.AgreedWith(p), r.AskedOf(p)
	if asked == nil {
		return held
	}
	return held.Max(asked.Amounts)
}

// Settle is the provider's answer to a change of amounts.
type Settle struct {
	PlacementRef
	Generation int64 `json:"generation"`
	// Refused is the reason why the provider keeps the old amounts; "" if it accepts the new ones.
	Refused string `json:"refused,omitempty"`
}

func (e *Settle) checkAgainst(s *State) error {
	r, p := s.findPlacement(e.PlacementRef)
	if p == nil {
		return fmt.Errorf("placement %s: %w", e.PlacementRef, ErrUnknown)
	}
	if asked := r.AskedOf(p); asked == nil || asked.Generation != e.Generation {
		return fmt.Errorf("placement %s: %w: nobody waits for an answer to change %d", e.PlacementRef, ErrTaken, e.Generation)
	}
	if r.Beside(p) != nil {
		// Only one of the two placements will serve the reservation, with the amounts to which its
		// provider has agreed.
		return fmt.Errorf("placement %s: %w: another provider may take over", e.PlacementRef, ErrTaken)
	}
	return nil
}

func (e *Settle) applyTo(s *State, _ time.Time) {
	r, p := s.findPlacement(e.PlacementRef)
	asked := r.Pending
	r.Pending, r.Changed = nil, s.position
	if e.Refused == "" {
		r.setAmounts(p, asked.Amounts)
	} else {
		r.Digest, r.Refusal = asked.Fallback, &Refusal{asked.Generation, e.Refused}
	}
	s.clusters.refreshHold(r, p)
}

// Restate corrects the amounts of a placement to those that its provider reports, after the book
// has lost a change of amounts. It corrects them even if the reported amounts do not fit, because
// they are in use.
type Restate struct {
	PlacementRef
	Amounts quantity.Amounts `json:"amounts"`
	// Digest is the digest of the request with these amounts.
	Digest string `json:"digest,omitempty"`
}

func (e *Restate) checkAgainst(s *State) error {
	if err := s.checkHolds(e.PlacementRef); err != nil {
		return err
	}
	r, p := s.findPlacement(e.PlacementRef)
	switch {
	case r.Pending != nil:
		return fmt.Errorf("placement %s: %w: change %d is not answered", e.PlacementRef, ErrTaken, r.Pending.Generation)
	case e.Amounts.IsZero():
		return fmt.Errorf("placement %s: %w: restated as nothing", e.PlacementRef, ErrMalformed)
	}
	if err := checkAmounts(e.Amounts); err != nil {
		return fmt.Errorf("placement %s: %w", e.PlacementRef, err)
	}
	held := s.Cluster(p.Provider).Held().Sub(r.HeldBy(p))
	for name, sum := range held.Add(e.Amounts) {
		if sum > quantity.Limit {
			return fmt.Errorf("placement %s: %w: %d of %s would be held", e.PlacementRef, ErrOverbooked, sum, name)
		}
	}
	return nil
}

func (e *Restate) applyTo(s *State, _ time.Time) {
	r, p := s.findPlacement(e.PlacementRef)
	r.Changed = s.position
	if p == r.Current() && r.Stands(p) {
		r.setAmounts(p, e.Amounts)
		if e.Digest != "" {
			r.Digest = e.Digest
		}
	} else {
		p.Amounts = e.Amounts
	}
	s.clusters.refreshHold(r, p)
}

// checkAmountsOf returns an error if a change of amounts is not possible now: the new amounts are
// invalid or do not fit, the provider has not yet acknowledged the placement or answered an
// earlier change, or another placement may take over.
func (cs *clusters) checkAmountsOf(r *Reservation, wanted quantity.Amounts) error {
	if wanted.IsZero() {
		return fmt.Errorf("reservation %q: %w: change to no amount", r.Name, ErrMalformed)
	}
	if err := checkAmounts(wanted); err != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, err)
	}
	p := r.Current()
	switch {
	case r.Pending != nil:
		return fmt.Errorf("reservation %q: %w: its provider has not answered change %d", r.Name, ErrTaken, r.Pending.Generation)
	case !r.Stands(p):
		return nil
	case r.Beside(p) != nil:
		return fmt.Errorf("reservation %q: %w: it is on its way to another provider", r.Name, ErrTaken)
	case cs.hasAgent(p.Provider) && p.AcknowledgedAt.IsZero():
		return fmt.Errorf("reservation %q: %w: its provider has not acknowledged it", r.Name, ErrTaken)
	}
	if short, fits := cs.growthOf(r, wanted); !fits {
		return fmt.Errorf("provider %q: %w: %s needs %d more, has %d", p.Provider, ErrOverbooked, short.Resource, short.Need, short.Have)
	}
	return nil
}

// growthOf reports whether the provider of the current placement has room for the growth to the wanted
// amounts. The growth counts from the larger of the held and the used amounts. If there is no room,
// growthOf returns the shortage of the first resource, by name, that does not fit.
func (cs *clusters) growthOf(r *Reservation, wanted quantity.Amounts) (quantity.Shortage, bool) {
	p := r.Current()
	c := cs.byID[p.Provider]
	now := r.HeldBy(p).Max(c.Used[brokerv1alpha1.PlacementName(r.Name, p.Number)])
	return quantity.Fits(now.Max(wanted).Sub(now), c.Available())
}

// changeAmounts changes the amounts of a reservation. The change is pending until the provider's
// agent answers. If the provider has no agent, or the reservation has no standing placement, the
// change takes effect at once.
func (s *State) changeAmounts(r *Reservation, c *Edit) {
	p := r.Current()
	if r.Stands(p) && s.HasAgent(p.Provider) {
		r.Pending = &Pending{Generation: c.Generation, Placement: p.Number, Amounts: c.Amounts, Fallback: c.Fallback}
	} else {
		r.setAmounts(p, c.Amounts)
	}
	s.clusters.refreshHold(r, p)
}

// setAmounts gives the reservation new amounts. They apply to all later placements and to the
// placement in the parameter with, unless it was given up. Every other placement keeps its old
// amounts until its provider reports others.
func (r *Reservation) setAmounts(with *Placement, amounts quantity.Amounts) {
	for i := range r.Placements {
		switch p := &r.Placements[i]; {
		case p == with && r.Stands(p):
			p.Amounts = nil
		case p.Amounts == nil && !p.ProviderGone:
			p.Amounts = r.Amounts
		}
	}
	r.Amounts = amounts
}

// refreshHold changes what a placement locks at its provider to the present result of HeldBy.
func (cs *clusters) refreshHold(r *Reservation, p *Placement) {
	if p == nil || p.ProviderGone {
		return
	}
	c, name := cs.byID[p.Provider], brokerv1alpha1.PlacementName(r.Name, p.Number)
	c.removeHold(name)
	c.addHold(name, r.HeldBy(p))
}

// dropPending decides a change of amounts that a placement's provider will no longer answer,
// because the placement is given up. The placement keeps the larger amounts locked until it is
// gone. If the reservation has ended, the change is dropped. A change to smaller amounts needs no
// consent and takes effect, unless another placement that stands has the old amounts. Any other
// change is refused with GivenUp.
func (r *Reservation) dropPending(p *Placement) {
	asked := r.AskedOf(p)
	if asked == nil {
		return
	}
	held := r.HeldBy(p)
	r.Pending = nil
	_, less := quantity.Fits(asked.Amounts, r.Amounts)
	switch {
	case r.EndReason != "":
	case less && r.Beside(p) == nil:
		r.setAmounts(p, asked.Amounts)
	default:
		r.Digest, r.Refusal = asked.Fallback, &Refusal{asked.Generation, GivenUp}
	}
	p.Amounts = held
}
