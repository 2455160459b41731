package ledger

import (
	"fmt"
	"time"
)

// HoldQuote creates a quote that holds capacity until a reservation takes the quote over or the hold
// ends. The provider learns nothing of the quote.
type HoldQuote struct {
	// Reserve is the reservation that the quote offers. Its name and key are those of the quote,
	// and Until is when the hold ends.
	Reserve
	// PriceTotal and RatesDate repeat what the quote says: the total price, and the date of the
	// exchange rates. The ledger only stores them.
	PriceTotal string `json:"priceTotal,omitempty"`
	RatesDate  string `json:"ratesDate,omitempty"`
}

func (*HoldQuote) subject() string { return "" }

func (k *HoldQuote) checkAgainst(s *State) error {
	if k.Until.IsZero() {
		return fmt.Errorf("quote %q: %w: held without end", k.Name, ErrMalformed)
	}
	if s.quotes.Named(k.Name) != nil {
		return fmt.Errorf("quote %q: %w", k.Name, ErrTaken)
	}
	if err := s.checkRequest(&k.Reserve); err != nil {
		return err
	}
	return s.clusters.checkGrant(k.Provider, &k.Request, k.Price)
}

func (k *HoldQuote) applyTo(s *State, at time.Time) {
	q := &Quote{HoldQuote: *k, HeldAt: at, Changed: s.position}
	q.Price = s.shared.internPrice(q.Price)
	s.internRequest(&q.Reserve)
	s.quotes.addQuote(q)
	s.Cluster(q.Provider).addQuote(q)
}

// TakeQuote grants a reservation on the capacity that is held for a quote.
type TakeQuote struct {
	Quote string `json:"quote"`
	Reserve
}

func (t *TakeQuote) subject() string { return t.Name }

// checkAgainst does not check whether the provider has room: the quote holds the capacity, even if
// the provider offers less by now. Requester, provider, amounts and price must equal those of the
// quote.
func (t *TakeQuote) checkAgainst(s *State) error {
	if err := s.checkRequest(&t.Reserve); err != nil {
		return err
	}
	if err := s.quotes.checkHeld(t.Quote); err != nil {
		return err
	}
	if q := s.quotes.Named(t.Quote); q.Requester != t.Requester || q.Provider != t.Provider || !q.Amounts.Equal(t.Amounts) || !q.Price.Equal(t.Price) {
		return fmt.Errorf("reservation %q: %w: quote %q holds something else", t.Name, ErrMalformed, t.Quote)
	}
	return nil
}

func (t *TakeQuote) applyTo(s *State, at time.Time) {
	q := s.quotes.Named(t.Quote)
	q.TakenBy = t.Name
	s.releaseQuote(q, HoldTaken)
	t.Reserve.applyTo(s, at)
}

// EndQuote ends the hold of a quote that no reservation has taken over.
type EndQuote struct {
	Name   string     `json:"name"`
	Reason HoldEnding `json:"reason"`
}

func (*EndQuote) subject() string { return "" }

func (l *EndQuote) checkAgainst(s *State) error {
	if l.Reason == "" || l.Reason == HoldTaken {
		return fmt.Errorf("quote %q: %w: let go for reason %q", l.Name, ErrMalformed, l.Reason)
	}
	return s.quotes.checkHeld(l.Name)
}

func (l *EndQuote) applyTo(s *State, _ time.Time) { s.releaseQuote(s.quotes.Named(l.Name), l.Reason) }

func (s *State) releaseQuote(q *Quote, why HoldEnding) {
	s.Cluster(q.Provider).removeQuote(q)
	q.Ended, q.Changed, q.Explanation = why, s.position, ""
	s.quotes.moveToEnded(q)
}
