package ledger

import (
	"fmt"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Adopt adds a placement that its provider reports but that the book has lost, after the journal
// was restored from an older state. It locks the placement's capacity even if it does not fit,
// because the placement already runs.
//
// If the book has lost the whole reservation, Adopt adds the reservation as well, as unclaimed.
// The broker tells the requester nothing about an unclaimed reservation until the requester has
// claimed it. So no provider can create a reservation in another cluster's name.
type Adopt struct {
	PlacementRef
	Provider  string           `json:"provider"`
	Requester string           `json:"requester"`
	Amounts   quantity.Amounts `json:"amounts"`
	Duration  time.Duration    `json:"duration,omitempty"`
	Until     time.Time        `json:"until"`
	// Price is the price that follows from the provider's present offer, because the book has lost
	// the locked price.
	Price *Price `json:"price,omitempty"`
	// Acknowledged is true if the provider had accepted the placement.
	Acknowledged bool `json:"acknowledged,omitempty"`
	// Withdrawn is the reason for giving the placement up if the provider was told to release it,
	// else "".
	Withdrawn string `json:"withdrawn,omitempty"`
}

const (
	// Superseded is the reason for giving up a placement when a newer one is adopted.
	Superseded = "Superseded"
	// withdrawnLost is the reason for which a placement counts as given up if the book has lost it and
	// no provider has announced it.
	withdrawnLost = "Lost"
	// maxAdopted is the highest number of an adopted placement. A reservation that retried once
	// a minute for a year has fewer.
	maxAdopted = 1_000_000
	// maxLost is how many lost placements one Adopt may add besides the adopted one: those whose
	// numbers lie between the placements in the book and the adopted one.
	maxLost = 16
)

// RequestKey returns the key of the agent's request that made the reservation. It returns "" if a
// Reservation object asked for it, or if the request is lost.
func (r *Reservation) RequestKey() string {
	if r.Object != nil || r.Key == adoptedKey(r.Name) {
		return ""
	}
	return r.Key
}

// Adoptable reports whether a provider's announcement may add the placement with the given number,
// because the book has lost it.
func (r *Reservation) Adoptable(number int32) bool {
	p := r.Placement(number)
	return p == nil || p.isLost()
}

func (a *Adopt) checkAgainst(s *State) error {
	if err := a.checkFields(); err != nil {
		return err
	}
	c := s.Cluster(a.Provider)
	if c == nil {
		return fmt.Errorf("provider %q: %w", a.Provider, ErrUnknown)
	}
	amounts, asked := a.Amounts, &Request{Amounts: a.Amounts}
	if r := s.reservations[a.Name]; r != nil {
		if p := r.Placement(a.Placement); r.Requester != a.Requester || p != nil && !p.isLost() {
			return fmt.Errorf("placement %s: %w", a.PlacementRef, ErrTaken)
		}
		if n := r.countMissing(a.Placement); n > maxLost {
			return fmt.Errorf("placement %s: %w: nothing is known of %d placements beside it, at most %d are left open",
				a.PlacementRef, ErrMalformed, n, maxLost)
		}
		amounts, asked = r.Amounts, &r.Request
	} else if err := s.checkKeyFree(a.Requester, adoptedKey(a.Name)); err != nil {
		return err
	}
	if err := s.clusters.checkPrice(a.Provider, asked, a.Price); err != nil {
		return err
	}
	// Sums above quantity.Limit would saturate, see Cluster.addHold.
	if c.hasRoomBelow(quantity.Limit, amounts) {
		return nil
	}
	for name, sum := range c.Held().Add(amounts) {
		if sum > quantity.Limit {
			return fmt.Errorf("placement %s: %w: %d of %s would be held", a.PlacementRef, ErrOverbooked, sum, name)
		}
	}
	return nil
}

// checkFields checks the conditions that do not depend on the state.
func (a *Adopt) checkFields() error {
	if a.Name == "" || a.Requester == "" || a.Placement < 1 || a.Placement > maxAdopted || a.Withdrawn == withdrawnLost || a.Amounts.IsZero() {
		return fmt.Errorf("placement %s: %w: adopted without name, requester, amounts or a number from 1 to %d",
			a.PlacementRef, ErrMalformed, maxAdopted)
	}
	if err := checkAmounts(a.Amounts); err != nil {
		return fmt.Errorf("placement %s: %w", a.PlacementRef, err)
	}
	return nil
}

func (a *Adopt) applyTo(s *State, at time.Time) {
	r := s.reservations[a.Name]
	if r == nil {
		r = &Reservation{By: s.shared.internActor(s.by), CreatedAt: instantOf(at), Unclaimed: true, Reserve: Reserve{
			Name: a.Name, Until: a.Until,
			Request: Request{Key: adoptedKey(a.Name), Requester: a.Requester, Amounts: a.Amounts, Duration: a.Duration},
		}}
		s.addReservation(r)
	}
	r.ensurePlacement(a.Placement, a.Provider)
	p := r.Placement(a.Placement)
	*p = Placement{Number: a.Placement, Provider: a.Provider, AssignedAt: instantOf(at), Withdrawn: a.Withdrawn, Price: s.shared.internPrice(a.Price)}
	if a.Withdrawn != "" {
		p.WithdrawnAt = instantOf(at)
	}
	if a.Acknowledged {
		// The placement may run already, so there must be no deadline for its node.
		p.AcknowledgedAt, p.EverReady = instantOf(at), true
	}
	s.Cluster(a.Provider).addHold(brokerv1alpha1.PlacementName(r.Name, p.Number), r.Amounts)
	if r.Waiting != nil && r.Stands(p) {
		// The event that granted the placement is lost.
		s.leaveQueue(r)
		r.Until = a.Until
		r.updateHistory(func(h *History) { h.GrantedAt = at })
	}
	r.Provider, r.Changed = r.Current().Provider, s.position
	s.withdrawOthers(at, r)
	if !r.Stands(p) {
		s.releaseSides(at, r, p)
	}
}

// Claim records that the requester has confirmed an adopted reservation.
type Claim struct {
	Name string `json:"name"`
	// Request is the original request with its key; nil if the requester announced none. The
	// reservation keeps the amounts and the duration of the adopted placement.
	Request *Request `json:"request,omitempty"`
	Digest  string   `json:"digest,omitempty"`
}

func (c *Claim) subject() string { return c.Name }

func (c *Claim) checkAgainst(s *State) error {
	r, err := s.findLive(c.Name)
	if err != nil {
		return err
	}
	if !r.Unclaimed {
		return fmt.Errorf("reservation %q: %w: its requester has claimed it", c.Name, ErrTaken)
	}
	if c.Request == nil {
		return nil
	}
	return s.checkKeyFree(r.Requester, c.Request.Key)
}

func (c *Claim) applyTo(s *State, _ time.Time) {
	r := s.reservations[c.Name]
	r.Unclaimed, r.Changed, r.By = false, s.position, s.shared.internActor(s.by)
	if c.Request == nil {
		return
	}
	delete(s.keys, keyRef{r.Requester, r.Key})
	claimed := *c.Request
	claimed.Requester, claimed.Amounts, claimed.Duration, claimed.Object = r.Requester, r.Amounts, r.Duration, nil
	r.Request, r.Digest = claimed, c.Digest
	s.internRequest(&r.Reserve)
	s.keys[keyRef{r.Requester, r.Key}] = r
}

// hasRoomBelow reports whether the sum of the claimed amounts and the given ones stays within the
// limit. The sum of the held amounts and the given ones then stays within it as well, because the
// held amounts are never larger than the claimed ones.
func (c *Cluster) hasRoomBelow(limit int64, more quantity.Amounts) bool {
	for name, amount := range more {
		if c.claimed[name] > limit-amount {
			return false
		}
	}
	return true
}

func (r *Reservation) countMissing(number int32) int32 {
	switch first, last := r.Skipped+1, r.lastNumber(); {
	case len(r.Placements) == 0:
		return 0
	case number < first:
		return first - number - 1
	default:
		return max(number-last-1, 0)
	}
}

// ensurePlacement makes sure that the book has a placement with the given number. It adds this
// placement, and all placements whose numbers lie between it and those in the book, each marked as
// lost. If the book has no placement of the reservation yet, it adds only the one with the given
// number and counts the lower numbers in Skipped.
func (r *Reservation) ensurePlacement(number int32, provider string) {
	if len(r.Placements) == 0 {
		r.Skipped = number - 1
	}
	gone := func(n int32) Placement {
		return Placement{Number: n, Provider: provider, Withdrawn: withdrawnLost, ProviderGone: true, ConsumerGone: true}
	}
	for n := r.Skipped; n >= number; n-- {
		r.Placements = slices.Insert(r.Placements, 0, gone(n))
		r.Skipped--
	}
	for n := r.lastNumber() + 1; n <= number; n++ {
		r.Placements = append(r.Placements, gone(n))
	}
}

// withdrawOthers gives up all placements that were not given up before, except the current one.
func (s *State) withdrawOthers(at time.Time, r *Reservation) {
	current := r.Current()
	for i := range r.Placements {
		if p := &r.Placements[i]; p != current && p.Withdrawn == "" {
			p.Withdrawn, p.Ready = Superseded, false
			s.releaseSides(at, r, p)
		}
	}
}

// adoptedKey returns a key that no request can have: keys of requests contain no slash.
func adoptedKey(name string) string { return "adopted/" + name }

func (p *Placement) isLost() bool { return p.Withdrawn == withdrawnLost }
