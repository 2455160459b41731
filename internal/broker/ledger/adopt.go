package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
)

// Adopt enters a placement that the book has lost, on its provider's word. It holds
// what it holds, whether it fits or not: it runs already.
//
// A reservation that is not in the book is entered with it, unclaimed: its requester
// hears nothing of it before it has claimed it, so that no provider can make a
// reservation in somebody's name.
type Adopt struct {
	PlacementRef
	Provider  string           `json:"provider"`
	Requester string           `json:"requester"`
	Amounts   quantity.Amounts `json:"amounts"`
	Duration  time.Duration    `json:"duration,omitempty"`
	Until     time.Time        `json:"until"`
	// Acknowledged is whether the provider had accepted it.
	Acknowledged bool `json:"acknowledged,omitempty"`
	// Withdrawn is why the provider was told to give it up, "" if it was not.
	Withdrawn string `json:"withdrawn,omitempty"`
}

// Claim is the requester's word for an adopted reservation.
type Claim struct {
	Name string `json:"name"`
	// Key it was asked for with, "" for none; with the rest of the request.
	Key      string `json:"key,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Tenant   string `json:"tenant,omitempty"`
	Priority int32  `json:"priority,omitempty"`
	Target   string `json:"target,omitempty"`
	Patient  bool   `json:"patient,omitempty"`
	terms.Terms
}

const (
	// Superseded is why a placement is given up when a newer one is adopted.
	Superseded = "Superseded"
	// lost is a number of which nothing is known: nobody has announced it.
	lost = "Lost"
	// maxAdopted bounds the numbers of placements that are entered on somebody's word.
	maxAdopted = 100
	// maxLost bounds how many numbers of which nothing is known one adoption brings with it.
	maxLost = 16
)

// adoptedKey is one that nobody can ask with: a key has no slash.
func adoptedKey(name string) string { return "adopted/" + name }

func (p *Placement) isLost() bool { return p.Withdrawn == lost }

// RequestKey is the key with which the requester's agent asked for the reservation, ""
// where it did not.
func (r *Reservation) RequestKey() string {
	if r.Object != nil || r.Key == adoptedKey(r.Name) {
		return ""
	}
	return r.Key
}

// Adoptable is whether the placement with that number can be entered on its
// provider's word: nothing is known of it.
func (r *Reservation) Adoptable(number int32) bool {
	p := r.Placement(number)
	return p == nil || p.isLost()
}

// checkFields checks what does not depend on the state.
func (a *Adopt) checkFields() error {
	if a.Name == "" || a.Requester == "" || a.Placement < 1 || a.Placement > maxAdopted || a.Withdrawn == lost || a.Amounts.IsZero() {
		return fmt.Errorf("placement %s: %w: adopted without name, requester, amounts or a number from 1 to %d",
			a.PlacementRef, ErrMalformed, maxAdopted)
	}
	if err := checkAmounts(a.Amounts); err != nil {
		return fmt.Errorf("placement %s: %w", a.PlacementRef, err)
	}
	return nil
}

func (a *Adopt) checkAgainst(s *State) error {
	if err := a.checkFields(); err != nil {
		return err
	}
	c := s.clusters[a.Provider]
	if c == nil {
		return fmt.Errorf("provider %q: %w", a.Provider, ErrUnknown)
	}
	amounts := a.Amounts
	if r := s.reservations[a.Name]; r != nil {
		if p := r.Placement(a.Placement); r.Requester != a.Requester || p != nil && !p.isLost() {
			return fmt.Errorf("placement %s: %w", a.PlacementRef, ErrTaken)
		}
		if n := r.missing(a.Placement); n > maxLost {
			return fmt.Errorf("placement %s: %w: nothing is known of %d placements beside it, at most %d are left open",
				a.PlacementRef, ErrMalformed, n, maxLost)
		}
		amounts = r.Amounts
	} else if err := s.checkKeyFree(a.Requester, adoptedKey(a.Name)); err != nil {
		return err
	}
	// Beyond that sums would saturate, see Cluster.hold.
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

// hasRoomBelow reports whether what is claimed, which is no less than what is held, stays
// below a limit with more.
func (c *Cluster) hasRoomBelow(limit int64, more quantity.Amounts) bool {
	for name, amount := range more {
		if c.claimed[name] > limit-amount {
			return false
		}
	}
	return true
}

func (a *Adopt) applyTo(s *State, at time.Time) {
	r := s.reservations[a.Name]
	if r == nil {
		r = &Reservation{CreatedAt: instantOf(at), Unclaimed: true, Reserve: Reserve{
			Name: a.Name, Key: adoptedKey(a.Name), Requester: a.Requester, Amounts: a.Amounts,
			Duration: a.Duration, Until: a.Until,
		}}
		s.enter(r)
	}
	r.makeRoom(a.Placement, a.Provider)
	p := r.Placement(a.Placement)
	*p = Placement{Number: a.Placement, Provider: a.Provider, AssignedAt: instantOf(at), Withdrawn: a.Withdrawn}
	if a.Acknowledged {
		// What the provider accepted may run, and is not given up for not having begun.
		p.AcknowledgedAt, p.EverReady = instantOf(at), true
	}
	s.clusters[a.Provider].hold(PlacementName(r.Name, p.Number), r.Amounts)
	if r.Waiting != nil && r.Stands(p) {
		// It was granted in the part that is lost.
		s.leaveQueue(r)
		r.Until = a.Until
		r.remember(func(h *History) { h.GrantedAt = at })
	}
	r.Provider, r.Changed = r.Current().Provider, s.position
	s.supersede(at, r)
	if !r.Stands(p) {
		s.giveUp(at, r, p)
	}
}

// missing counts the numbers between a new placement and those in the book.
func (r *Reservation) missing(number int32) int32 {
	switch first, last := r.Skipped+1, r.last(); {
	case len(r.Placements) == 0:
		return 0
	case number < first:
		return first - number - 1
	default:
		return max(number-last-1, 0)
	}
}

// makeRoom has a placement with that number in the book. Numbers before the first one that
// is known take no room; those between it and the others are lost.
func (r *Reservation) makeRoom(number int32, provider string) {
	if len(r.Placements) == 0 {
		r.Skipped = number - 1
	}
	gone := func(n int32) Placement {
		return Placement{Number: n, Provider: provider, Withdrawn: lost, ProviderGone: true, ConsumerGone: true}
	}
	for n := r.Skipped; n >= number; n-- {
		r.Placements = slices.Insert(r.Placements, 0, gone(n))
		r.Skipped--
	}
	for n := r.last() + 1; n <= number; n++ {
		r.Placements = append(r.Placements, gone(n))
	}
}

// supersede gives up what stands beside the current placement.
func (s *State) supersede(at time.Time, r *Reservation) {
	current := r.Current()
	for i := range r.Placements {
		if p := &r.Placements[i]; p != current && p.Withdrawn == "" {
			p.Withdrawn, p.Ready = Superseded, false
			s.giveUp(at, r, p)
		}
	}
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
	if c.Key == "" {
		return nil
	}
	return s.checkKeyFree(r.Requester, c.Key)
}

func (c *Claim) applyTo(s *State, _ time.Time) {
	r := s.reservations[c.Name]
	r.Unclaimed, r.Changed = false, s.position
	if c.Key == "" {
		return
	}
	delete(s.keys, keyRef{r.Requester, r.Key})
	r.Key, r.Digest, r.Tenant, r.Priority, r.Target, r.Terms = c.Key, c.Digest, c.Tenant, c.Priority, c.Target, c.Terms.OrNil()
	r.Patient = c.Patient
	s.keys[keyRef{r.Requester, r.Key}] = r
}
