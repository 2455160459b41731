package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Quote is an offer to a requester for which capacity is held for some time.
type Quote struct {
	HoldQuote
	HeldAt time.Time
	// Ended says why the quote ended; "" while it is held.
	Ended HoldEnding `json:",omitempty"`
	// TakenBy is the reservation that took the quote over, "" if none did.
	TakenBy string `json:",omitempty"`
	// Changed is the position of the last event that changed the quote.
	Changed uint64
}

// HoldEnding is why a quote is no longer held.
type HoldEnding string

// Reasons why a hold ends.
const (
	// HoldExpired: the time of the quote is over.
	HoldExpired HoldEnding = "Expired"
	// HoldReleased: the requester released the quote.
	HoldReleased HoldEnding = "Released"
	// HoldDenied: an administrator denied the requester or the provider.
	HoldDenied HoldEnding = "Denied"
	// HoldTaken: a reservation took the quote over.
	HoldTaken HoldEnding = "Taken"
	// HoldLost: the book was restored from an older state. The lost events may have included one
	// that took the quote over.
	HoldLost HoldEnding = "Lost"
)

// Over reports whether the quote can no longer be taken over.
func (q *Quote) Over() bool { return q.Ended != "" }

// Quotes holds all quotes of the book, by name, by key and by requester.
type Quotes struct {
	named map[string]*Quote
	keys  map[keyRef]*Quote
	// of lists the quotes of each requester. A new quote is added at the end, and a quote that ends
	// moves there.
	of map[string][]*Quote
}

// endedQuotes is how many ended quotes are kept for each requester, so that a requester that
// repeats a request late learns what became of its quote.
const endedQuotes = 100

// Quotes returns the quotes in the book. The caller must not change them.
func (s *State) Quotes() *Quotes { return &s.quotes }

// QuoteByKey returns the quote that a requester requested under a key, nil if there is none, and
// whether the key is closed.
func (s *State) QuoteByKey(requester, key string) (q *Quote, closed bool) {
	_, closed = s.closedKeys[keyRef{requester, key}]
	return s.quotes.keys[keyRef{requester, key}], closed
}

// Named returns a quote by its name, nil if it is unknown or was dropped after its end, see
// endedQuotes.
func (qs *Quotes) Named(name string) *Quote { return qs.named[name] }

// HeldFor returns the quotes that are held for a requester now.
func (qs *Quotes) HeldFor(requester string) []*Quote {
	return slices.DeleteFunc(slices.Clone(qs.of[requester]), (*Quote).Over)
}

// AllHeld returns all quotes that are held now, sorted by name.
func (qs *Quotes) AllHeld() []*Quote {
	var out []*Quote
	for requester := range qs.of {
		out = append(out, qs.HeldFor(requester)...)
	}
	slices.SortFunc(out, func(a, b *Quote) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Quoted returns the quotes that hold capacity on the cluster, sorted by name.
func (c *Cluster) Quoted() []*Quote {
	return slices.SortedFunc(maps.Values(c.quoted), func(a, b *Quote) int { return cmp.Compare(a.Name, b.Name) })
}

func (qs *Quotes) checkHeld(name string) error {
	q := qs.named[name]
	switch {
	case q == nil:
		return fmt.Errorf("quote %q: %w", name, ErrUnknown)
	case q.Over():
		return fmt.Errorf("quote %q: %w", name, ErrOver)
	}
	return nil
}

func (qs *Quotes) addQuote(q *Quote) {
	qs.named[q.Name] = q
	qs.of[q.Requester] = append(qs.of[q.Requester], q)
	qs.keys[keyRef{q.Requester, q.Key}] = q
}

// moveToEnded moves a quote that has just ended behind its requester's other quotes. If more than
// endedQuotes have ended, it drops the one that ended first.
func (qs *Quotes) moveToEnded(q *Quote) {
	mine := slices.DeleteFunc(qs.of[q.Requester], func(o *Quote) bool { return o == q })
	mine = append(mine, q)
	if len(mine)-len(qs.HeldFor(q.Requester)) > endedQuotes {
		i := slices.IndexFunc(mine, func(o *Quote) bool { return o.Ended != "" })
		delete(qs.keys, keyRef{q.Requester, mine[i].Key})
		delete(qs.named, mine[i].Name)
		mine = slices.Delete(mine, i, i+1)
	}
	qs.of[q.Requester] = mine
}

// copyAll returns a copy of every quote, in random order.
func (qs *Quotes) copyAll() []*Quote {
	out := make([]*Quote, 0, len(qs.named))
	for _, q := range qs.named {
		held := *q
		out = append(out, &held)
	}
	return out
}

func (c *Cluster) addQuote(q *Quote) {
	c.quoted[q.Name] = q
	c.claimed = c.claimed.Add(q.Amounts)
}

func (c *Cluster) removeQuote(q *Quote) {
	if c.quoted[q.Name] != nil {
		delete(c.quoted, q.Name)
		c.claimed = c.claimed.Sub(q.Amounts)
	}
}

func (c *Cluster) sumQuoted() quantity.Amounts {
	sum := quantity.Amounts{}
	for _, q := range c.quoted {
		sum = sum.Add(q.Amounts)
	}
	return sum
}
