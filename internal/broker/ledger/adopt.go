package ledger

import (
	"fmt"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Adopt enters a placement that the book has lost and that its provider reports. It takes the
// placement's capacity whether it fits or not, because the placement already runs.
//
// If the book does not have the reservation either, Adopt enters it as unclaimed. The requester
// does not learn of it before it has claimed it. So no provider can create a reservation in
// another cluster's name.
type Adopt struct {
	PlacementRef
	Provider  string           `json:"provider"`
	Requester string           `json:"requester"`
	Amounts   quantity.Amounts `json:"amounts"`
	Duration  time.Duration    `json:"duration,omitempty"`
	Until     time.Time        `json:"until"`
	// Acknowledged is true if the provider had accepted the placement.
	Acknowledged bool `json:"acknowledged,omitempty"`
	// Withdrawn is the reason with which the provider was told to give the placement up, "" for
	// none.
	Withdrawn string `json:"withdrawn,omitempty"`
}

const (
	// Superseded is the reason for giving up a placement when a newer one is adopted.
	Superseded = "Superseded"
	// withdrawnLost marks a placement that no provider has announced.
	withdrawnLost = "Lost"
	// maxAdopted is the highest number of an adopted placement. A reservation that retried once
	// a minute for a year has fewer.
	maxAdopted = 1_000_000
	// maxLost bounds the placements without an announcement that one adoption may add.
	maxLost = 16
)

// RequestKey returns the key of the agent's request, "" if no agent made one.
func (r *Reservation) RequestKey() string {
	if r.Object != nil || r.Key == adoptedKey(r.Name) {
		return ""
	}
	return r.Key
}

// Adoptable reports whether a provider may enter the placement with that number, because
// the book does not have it.
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
	amounts := a.Amounts
	if r := s.reservations[a.Name]; r != nil {
		if p := r.Placement(a.Placement); r.Requester != a.Requester || p != nil && !p.isLost() {
			return fmt.Errorf("placement %s: %w", a.PlacementRef, ErrTaken)
		}
		if n := r.countMissing(a.Placement); n > maxLost {
			return fmt.Errorf("placement %s: %w: nothing is known of %d placements beside it, at most %d are left open",
				a.PlacementRef, ErrMalformed, n, maxLost)
		}
		amounts = r.Amounts
	} else if err := s.checkKeyFree(a.Requester, adoptedKey(a.Name)); err != nil {
		return err
	}
	// Beyond the limit sums would saturate, see Cluster.addHold.
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
		r = &Reservation{CreatedAt: instantOf(at), Unclaimed: true, Reserve: Reserve{
			Name: a.Name, Until: a.Until,
			Request: Request{Key: adoptedKey(a.Name), Requester: a.Requester, Amounts: a.Amounts, Duration: a.Duration},
		}}
		s.addReservation(r)
	}
	r.ensurePlacement(a.Placement, a.Provider)
	p := r.Placement(a.Placement)
	*p = Placement{Number: a.Placement, Provider: a.Provider, AssignedAt: instantOf(at), Withdrawn: a.Withdrawn}
	if a.Withdrawn != "" {
		p.WithdrawnAt = instantOf(at)
	}
	if a.Acknowledged {
		// The placement may run already, so no deadline for its node applies.
		p.AcknowledgedAt, p.EverReady = instantOf(at), true
	}
	s.Cluster(a.Provider).addHold(brokerv1alpha1.PlacementName(r.Name, p.Number), r.Amounts)
	if r.Waiting != nil && r.Stands(p) {
		// The record that granted it is lost.
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

// Claim notes that the requester has confirmed an adopted reservation.
type Claim struct {
	Name string `json:"name"`
	// Request is the original request with its key, nil for none. Amounts and duration stay those
	// of the adopted placement.
	Request *Request `json:"request,omitempty"`
	Digest  string   `json:"digest,omitempty"`
}

func (c *Claim) subject() string { return c.Name }

func (c *Claim) checkAgainst(s *State) error {
	if err := s.checkLive(c.Name); err != nil {
		return err
	}
	r := s.reservations[c.Name]
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
	r.Unclaimed, r.Changed = false, s.position
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

// hasRoomBelow reports whether the claimed capacity plus more stays below a limit. The claimed
// capacity is never less than the held one.
func (c *Cluster) hasRoomBelow(limit int64, more quantity.Amounts) bool {
	for name, amount := range more {
		if c.claimed[name] > limit-amount {
			return false
		}
	}
	return true
}

// countMissing returns how many numbers lie between a new placement and those in the book.
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

// ensurePlacement extends Placements so that it contains the number. It marks missing
// placements in between as lost. Those before the first known placement are only skipped.
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

// withdrawOthers gives up all standing placements except the current one.
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
