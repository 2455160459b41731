package ledger

import (
	"errors"
	"fmt"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/mutant"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Refusals of Check; match with errors.Is.
var (
	// ErrOverbooked: the provider's offer does not hold the amounts.
	ErrOverbooked = errors.New("does not fit into what the provider offers")
	// ErrUnknown: the event names a cluster, reservation or placement that is not
	// in the book.
	ErrUnknown = errors.New("not in the book")
	// ErrTaken: the name or the key is in use, or the key is shut.
	ErrTaken = errors.New("already taken")
	// ErrOver: the reservation or the placement has ended.
	ErrOver = errors.New("has ended")
	// ErrMalformed: the event says nothing or too much.
	ErrMalformed = errors.New("malformed event")
)

// Check says whether Apply would take the event, and why not.
//
//nolint:gocyclo // a case for every kind of event
func (s *State) Check(e *Event) error {
	if e.changes() != 1 {
		return fmt.Errorf("%w: %d changes in one event, want 1", ErrMalformed, e.changes())
	}
	switch {
	case e.Offer != nil:
		return checkOffer(e.Offer)
	case e.Reserve != nil:
		return s.checkReserve(e.Reserve)
	case e.Move != nil:
		return s.checkMove(e.Move)
	case e.Acknowledge != nil:
		return s.checkStanding(*e.Acknowledge)
	case e.NodeReady != nil:
		return s.checkStanding(e.NodeReady.PlacementRef)
	case e.Withdraw != nil:
		return s.checkWithdraw(e.Withdraw)
	case e.ProviderGone != nil:
		return s.checkLeft(*e.ProviderGone)
	case e.ConsumerGone != nil:
		return s.checkLeft(*e.ConsumerGone)
	case e.End != nil:
		return s.checkEnd(e.End)
	case e.Renew != nil:
		return s.checkLive(e.Renew.Name)
	case e.Change != nil:
		return s.checkChange(e.Change)
	case e.Settle != nil:
		return s.checkSettle(e.Settle)
	case e.Reach != nil:
		return s.checkReach(e.Reach)
	case e.Heal != nil:
		return s.checkHeal(e.Heal)
	case e.Recall != nil:
		return s.checkRecall(e.Recall)
	case e.Close != nil:
		return s.checkClose(e.Close)
	case e.Exceed != nil:
		return s.checkExceed(e.Exceed)
	case e.Usage != nil:
		return s.checkUsage(e.Usage)
	case e.Ceilings != nil:
		return checkCeilings(e.Ceilings)
	case e.Shut != nil:
		return s.checkKeyFree(e.Shut.Requester, e.Shut.Key)
	case e.Forget != nil:
		return s.checkForget(e.Forget)
	case e.Enqueue != nil, e.Grant != nil, e.Preempt != nil:
		return s.checkQueue(e)
	case e.Keep != nil, e.Take != nil, e.LetGo != nil:
		return s.checkHolds(e)
	default:
		return s.checkRestored(e)
	}
}

func (e *Event) changes() int {
	n := 0
	for _, set := range []bool{
		e.Offer != nil, e.Reserve != nil, e.Move != nil, e.Acknowledge != nil,
		e.NodeReady != nil, e.Withdraw != nil, e.ProviderGone != nil, e.ConsumerGone != nil,
		e.End != nil, e.Renew != nil, e.Shut != nil, e.Forget != nil,
		e.Lineage != nil, e.Announced != nil, e.Adopt != nil, e.Claim != nil, e.Change != nil,
		e.Enqueue != nil, e.Grant != nil, e.Preempt != nil,
		e.Settle != nil, e.Restate != nil, e.Reach != nil, e.Heal != nil, e.Keep != nil, e.Take != nil, e.LetGo != nil, e.Ceilings != nil, e.Recall != nil,
		e.Close != nil, e.Exceed != nil, e.Usage != nil,
	} {
		if set {
			n++
		}
	}
	return n
}

// checkOffer keeps every sum of the book within an int64: a sum that saturates
// would differ between a book that counted up to it and one that was restored.
func checkOffer(o *Offer) error {
	if o.ClusterID == "" {
		return fmt.Errorf("%w: offer without cluster", ErrMalformed)
	}
	if err := checkUsed(o.ClusterID, o.Used); err != nil {
		return err
	}
	if err := o.OverSubscription.Check(); err != nil {
		return fmt.Errorf("offer of %q: %w: %w", o.ClusterID, ErrMalformed, err)
	}
	for _, amounts := range []quantity.Amounts{o.Capacity, o.Allocatable, o.Allocated} {
		if err := checkAmounts(amounts); err != nil {
			return fmt.Errorf("offer of %q: %w", o.ClusterID, err)
		}
	}
	return nil
}

func checkAmounts(amounts quantity.Amounts) error {
	for name, amount := range amounts {
		if amount < 0 || amount > quantity.Limit {
			return fmt.Errorf("%w: %d of %s, want 0 to %d", ErrMalformed, amount, name, quantity.Limit)
		}
	}
	return nil
}

func (s *State) checkReserve(r *Reserve) error {
	if err := s.checkRequest(r); err != nil {
		return err
	}
	return s.checkFits(r.Provider, r.Amounts)
}

// checkRequest is what holds for a request, be it granted or not.
func (s *State) checkRequest(r *Reserve) error {
	if r.Name == "" || r.Requester == "" || r.Key == "" || r.Amounts.IsZero() {
		return fmt.Errorf("%w: reservation without name, requester, key or amounts", ErrMalformed)
	}
	if err := checkAmounts(r.Amounts); err != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, err)
	}
	if s.reservations[r.Name] != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, ErrTaken)
	}
	return s.checkKeyFree(r.Requester, r.Key)
}

func (s *State) checkKeyFree(requester, key string) error {
	known, shut := s.ByKey(requester, key)
	if known != nil || shut || s.quotes.keys[keyRef{requester, key}] != nil {
		return fmt.Errorf("key %q of %q: %w", key, requester, ErrTaken)
	}
	return nil
}

func (s *State) checkMove(m *Move) error {
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

func (s *State) checkFits(provider string, amounts quantity.Amounts) error {
	c := s.clusters[provider]
	if c == nil {
		return fmt.Errorf("provider %q: %w", provider, ErrUnknown)
	}
	if short, ok := quantity.Fits(amounts, c.Available()); !ok && mutant.Active != mutant.StaleGrant {
		return fmt.Errorf("provider %q: %w: %s needs %d, has %d", provider, ErrOverbooked, short.Resource, short.Need, short.Have)
	}
	return nil
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

// checkWithdraw and checkEnd ask for a reason because a placement without one
// still stands, and what stands must not be given back.
func (s *State) checkWithdraw(w *Withdraw) error {
	if w.Reason == "" {
		return fmt.Errorf("placement %s: %w: withdrawn without reason", w.PlacementRef, ErrMalformed)
	}
	return s.checkStanding(w.PlacementRef)
}

func (s *State) checkEnd(e *End) error {
	if e.Reason == "" {
		return fmt.Errorf("reservation %q: %w: ended without reason", e.Name, ErrMalformed)
	}
	return s.checkLive(e.Name)
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

func (s *State) checkForget(f *Forget) error {
	for _, name := range f.Names {
		r := s.reservations[name]
		if r == nil {
			return fmt.Errorf("reservation %q: %w", name, ErrUnknown)
		}
		if !s.Over(r) {
			return fmt.Errorf("reservation %q: %w: it is not over", name, ErrTaken)
		}
	}
	return nil
}

func (s *State) placement(ref PlacementRef) (*Reservation, *Placement) {
	r := s.reservations[ref.Name]
	if r == nil {
		return nil, nil
	}
	return r, r.Placement(ref.Placement)
}

// String is the placement's name.
func (ref PlacementRef) String() string { return PlacementName(ref.Name, ref.Placement) }
