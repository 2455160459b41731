package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Keep holds capacity for a quote until its requester takes it over. The provider does not
// learn of it.
type Keep struct {
	// Reserve is the reservation that would be granted. Name and key are the quote's own, and
	// Until is when the hold ends.
	Reserve
	// PriceTotal and RatesDate are the quoted values. The ledger only stores them.
	PriceTotal string `json:"priceTotal,omitempty"`
	RatesDate  string `json:"ratesDate,omitempty"`
}

// Take grants a reservation the capacity that is held for a quote.
type Take struct {
	Quote string `json:"quote"`
	Reserve
}

// LetGo ends the hold of a quote that was not taken over.
type LetGo struct {
	Name   string     `json:"name"`
	Reason HoldEnding `json:"reason"`
}

// HoldEnding is why a quote is no longer held.
type HoldEnding string

// Reasons why a hold ends.
const (
	// HoldExpired: its time is over.
	HoldExpired HoldEnding = "Expired"
	// HoldReleased: its requester released it.
	HoldReleased HoldEnding = "Released"
	// HoldDenied: its requester or its provider was denied.
	HoldDenied HoldEnding = "Denied"
	// HoldTaken: a reservation took it over.
	HoldTaken HoldEnding = "Taken"
	// HoldLost: the book was restored from an older state. The quote may have been taken over
	// in the lost part.
	HoldLost HoldEnding = "Lost"
)

// Quote is a decision in the book for which capacity is held.
type Quote struct {
	Keep
	HeldAt time.Time
	// Ended is "" while it is held.
	Ended HoldEnding `json:",omitempty"`
	// TakenBy is the reservation that took it over, "" if none did.
	TakenBy string `json:",omitempty"`
	// Changed is the position of the last event that changed it.
	Changed uint64
}

// Over reports whether the quote can no longer be taken over.
func (q *Quote) Over() bool { return q.Ended != "" }

// endedQuotes bounds the ended quotes that are kept for each requester, so that a late
// repetition of a request gets the outcome of its quote.
const endedQuotes = 100

// quotes indexes the quotes in the book.
type quotes struct {
	named map[string]*Quote
	keys  map[keyRef]*Quote
	// of holds the quotes of each requester, in the order of their last change.
	of map[string][]*Quote
}

func newQuotes() quotes {
	return quotes{named: map[string]*Quote{}, keys: map[keyRef]*Quote{}, of: map[string][]*Quote{}}
}

// Quote returns a quote by its name, nil if it is unknown or ended long ago.
func (s *State) Quote(name string) *Quote { return s.quotes.named[name] }

// QuoteByKey returns the quote of a requester's key, and reports whether the key is shut.
func (s *State) QuoteByKey(requester, key string) (q *Quote, shut bool) {
	_, shut = s.shut[keyRef{requester, key}]
	return s.quotes.keys[keyRef{requester, key}], shut
}

// HeldFor returns the quotes that are held for a requester.
func (s *State) HeldFor(requester string) []*Quote {
	var out []*Quote
	for _, q := range s.quotes.of[requester] {
		if q.Ended == "" {
			out = append(out, q)
		}
	}
	return out
}

// AllHeld returns the quotes that are held, sorted by name.
func (s *State) AllHeld() []*Quote {
	var out []*Quote
	for requester := range s.quotes.of {
		out = append(out, s.HeldFor(requester)...)
	}
	slices.SortFunc(out, func(a, b *Quote) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Quoted returns the quotes that hold capacity on the cluster, sorted by name.
func (c *Cluster) Quoted() []*Quote {
	return slices.SortedFunc(maps.Values(c.quoted), func(a, b *Quote) int { return cmp.Compare(a.Name, b.Name) })
}

func (k *Keep) applyTo(s *State, at time.Time) {
	q := &Quote{Keep: *k, HeldAt: at, Changed: s.position}
	s.internRequest(&q.Reserve)
	s.enterQuote(q)
	c := s.clusters[q.Provider]
	c.quoted[q.Name] = q
	c.claimed = c.claimed.Add(q.Amounts)
}

func (s *State) enterQuote(q *Quote) {
	s.quotes.named[q.Name] = q
	s.quotes.of[q.Requester] = append(s.quotes.of[q.Requester], q)
	s.quotes.keys[keyRef{q.Requester, q.Key}] = q
}

func (*Keep) subject() string { return "" }

func (k *Keep) checkAgainst(s *State) error {
	if k.Until.IsZero() {
		return fmt.Errorf("quote %q: %w: held without end", k.Name, ErrMalformed)
	}
	if s.Quote(k.Name) != nil {
		return fmt.Errorf("quote %q: %w", k.Name, ErrTaken)
	}
	if err := s.checkRequest(&k.Reserve); err != nil {
		return err
	}
	return s.checkFits(k.Provider, k.Amounts)
}

func (*LetGo) subject() string { return "" }

func (l *LetGo) checkAgainst(s *State) error {
	if l.Reason == "" || l.Reason == HoldTaken {
		return fmt.Errorf("quote %q: %w: let go for reason %q", l.Name, ErrMalformed, l.Reason)
	}
	return s.checkHeld(l.Name)
}

func (s *State) checkHeld(name string) error {
	q := s.Quote(name)
	switch {
	case q == nil:
		return fmt.Errorf("quote %q: %w", name, ErrUnknown)
	case q.Over():
		return fmt.Errorf("quote %q: %w", name, ErrOver)
	}
	return nil
}

func (t *Take) subject() string { return t.Name }

// checkAgainst does not check the capacity again: it was granted with the quote, whatever the
// provider has by now.
func (t *Take) checkAgainst(s *State) error {
	if err := s.checkRequest(&t.Reserve); err != nil {
		return err
	}
	if err := s.checkHeld(t.Quote); err != nil {
		return err
	}
	if q := s.Quote(t.Quote); q.Requester != t.Requester || q.Provider != t.Provider || !q.Amounts.Equal(t.Amounts) {
		return fmt.Errorf("reservation %q: %w: quote %q holds something else", t.Name, ErrMalformed, t.Quote)
	}
	return nil
}

func (t *Take) applyTo(s *State, at time.Time) {
	q := s.Quote(t.Quote)
	q.TakenBy = t.Name
	s.releaseQuote(q, HoldTaken)
	t.Reserve.applyTo(s, at)
}

func (l *LetGo) applyTo(s *State, _ time.Time) { s.releaseQuote(s.Quote(l.Name), l.Reason) }

// releaseQuote frees the capacity of a quote and stores the reason.
func (s *State) releaseQuote(q *Quote, why HoldEnding) {
	if c := s.clusters[q.Provider]; c.quoted[q.Name] != nil {
		delete(c.quoted, q.Name)
		c.claimed = c.claimed.Sub(q.Amounts)
	}
	q.Ended, q.Changed, q.Explanation = why, s.position, ""
	mine := slices.DeleteFunc(s.quotes.of[q.Requester], func(o *Quote) bool { return o == q })
	mine = append(mine, q)
	if len(mine)-len(s.HeldFor(q.Requester)) > endedQuotes {
		i := slices.IndexFunc(mine, func(o *Quote) bool { return o.Ended != "" })
		delete(s.quotes.keys, keyRef{q.Requester, mine[i].Key})
		delete(s.quotes.named, mine[i].Name)
		mine = slices.Delete(mine, i, i+1)
	}
	s.quotes.of[q.Requester] = mine
}

// releaseAllQuotes ends the holds of all quotes.
func (s *State) releaseAllQuotes() {
	for _, q := range s.AllHeld() {
		s.releaseQuote(q, HoldLost)
	}
}

// copyQuotes returns copies of all quotes.
func (s *quotes) copyQuotes() []*Quote {
	out := make([]*Quote, 0, len(s.named))
	for _, q := range s.named {
		held := *q
		out = append(out, &held)
	}
	return out
}

func compareQuotes(a, b *Quote) int {
	return cmp.Or(cmp.Compare(a.Changed, b.Changed), cmp.Compare(a.Name, b.Name))
}

func (s *State) restoreQuote(q *Quote) error {
	if q == nil || q.Name == "" || s.clusters[q.Provider] == nil {
		return fmt.Errorf("%w: quote without name or provider", ErrMalformed)
	}
	if s.Quote(q.Name) != nil {
		return fmt.Errorf("quote %q: %w", q.Name, ErrTaken)
	}
	if err := checkAmounts(q.Amounts); err != nil {
		return fmt.Errorf("quote %q: %w", q.Name, err)
	}
	if err := s.checkKeyFree(q.Requester, q.Key); err != nil {
		return fmt.Errorf("quote %q: %w", q.Name, err)
	}
	s.enterQuote(q)
	if q.Ended == "" {
		s.clusters[q.Provider].quoted[q.Name] = q
	}
	return nil
}

// sumQuoted sums the amounts that quotes hold on the cluster.
func (c *Cluster) sumQuoted() quantity.Amounts {
	sum := quantity.Amounts{}
	for _, q := range c.quoted {
		sum = sum.Add(q.Amounts)
	}
	return sum
}
