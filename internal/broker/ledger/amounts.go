package ledger

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Pending is a change of amounts that the provider's agent has not answered. Until then, the
// larger of both amounts is held for each resource, and the consumer may use the old amounts.
type Pending struct {
	// Generation is that of the Edit.
	Generation int64
	// Placement is the placement whose provider has to answer.
	Placement int32
	Amounts   quantity.Amounts
	// Fallback is the digest of the request that stays in force if the provider refuses.
	Fallback string
}

// Refusal is why the last change of amounts did not take effect.
type Refusal struct {
	Generation int64
	Reason     string
}

// GivenUp is the reason of a Refusal if the placement was given up before its provider answered
// the change.
const GivenUp = "its provider had not answered when the placement was given up"

// Wanted returns the amounts that the requester last asked for and that were not refused.
func (r *Reservation) Wanted() quantity.Amounts {
	if r.Pending != nil {
		return r.Pending.Amounts
	}
	return r.Amounts
}

// AgreedWith returns the amounts that the provider of a placement last acknowledged.
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

// HeldBy returns the amounts that are locked at the provider of a placement.
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
	// Refused is the reason why the provider keeps the old amounts, "" if it accepted the new
	// ones.
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
		// One of the two will serve the reservation, with the amounts it has agreed to.
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

// Restate corrects the amounts of a placement after the book has lost a change. The provider
// reports the amounts. They apply whether they fit or not, because they are in use.
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

// checkAmountsOf refuses a change of amounts that does not fit, or that comes before the
// provider has answered an earlier one.
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

// Growth reports whether the provider of the current placement has room for the additional
// amounts. If not, it returns the shortage of the first short resource by name.
func (cs *clusters) growthOf(r *Reservation, wanted quantity.Amounts) (quantity.Shortage, bool) {
	p := r.Current()
	c := cs.byID[p.Provider]
	now := r.HeldBy(p).Max(c.Used[brokerv1alpha1.PlacementName(r.Name, p.Number)])
	return quantity.Fits(now.Max(wanted).Sub(now), c.Available())
}

// changeAmounts asks the provider for other amounts. They take effect at once if the provider
// has no agent or the reservation has no standing placement.
func (s *State) changeAmounts(r *Reservation, c *Edit) {
	p := r.Current()
	if r.Stands(p) && s.HasAgent(p.Provider) {
		r.Pending = &Pending{Generation: c.Generation, Placement: p.Number, Amounts: c.Amounts, Fallback: c.Fallback}
	} else {
		r.setAmounts(p, c.Amounts)
	}
	s.clusters.refreshHold(r, p)
}

// setAmounts gives the reservation new amounts. They apply to the placement with, if it stands, and
// to later placements. All other placements keep their amounts until their providers change
// them.
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

// refreshHold locks the amounts of HeldBy instead of the former ones.
func (cs *clusters) refreshHold(r *Reservation, p *Placement) {
	if p == nil || p.ProviderGone {
		return
	}
	c, name := cs.byID[p.Provider], brokerv1alpha1.PlacementName(r.Name, p.Number)
	c.removeHold(name)
	c.addHold(name, r.HeldBy(p))
}

// dropPending decides a change whose provider will no longer answer. The placement keeps both
// amounts locked until it is gone. A change to smaller amounts needs no consent: it takes
// effect, unless another provider has taken over with the old amounts. Any other change is
// dropped.
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
