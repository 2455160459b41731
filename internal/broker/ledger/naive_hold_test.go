package ledger

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// naiveHold is a hold of a quote, current or ended. The naive book never forgets a hold.
type naiveHold struct {
	kept    HoldQuote
	ended   HoldEnding
	takenBy string
	// after counts the quotes of the same requester whose hold ended after that of this quote.
	after int
}

func (n *naive) findHold(name string) *naiveHold {
	for _, h := range n.quotes {
		if h.kept.Name == name && h.after < 100 {
			return h
		}
	}
	return nil
}

func (n *naive) sumQuoted(cluster string, resource corev1.ResourceName) int64 {
	var sum int64
	for _, h := range n.quotes {
		if h.kept.Provider == cluster && h.ended == "" {
			sum += h.kept.Amounts[resource]
		}
	}
	return sum
}

func (n *naive) refusalsOfHolds(e *Event) (no []error) {
	refuse := func(when bool, reason error) {
		if when {
			no = append(no, reason)
		}
	}
	switch change := e.Change.(type) {
	case *EndQuote:
		h := n.findHold(change.Name)
		refuse(h == nil, ErrUnknown)
		refuse(h != nil && h.ended != "", ErrOver)
		refuse(change.Reason == "", ErrMalformed)
	case *HoldQuote:
		k := change
		refuse(k.Until.IsZero() || k.Amounts.IsZero(), ErrMalformed)
		refuse(n.findHold(k.Name) != nil || n.keyUsed(k.Requester, k.Key), ErrTaken)
		refuse(n.clusters[k.Provider] == nil, ErrUnknown)
		for resource, want := range k.Amounts {
			refuse(n.clusters[k.Provider] != nil && want > n.freeAmount(k.Provider, resource), ErrOverbooked)
		}
	case *TakeQuote:
		r := change
		refuse(n.findEntry(r.Name) != nil || n.keyUsed(r.Requester, r.Key), ErrTaken)
		refuse(r.Amounts.IsZero(), ErrMalformed)
		h := n.findHold(r.Quote)
		refuse(h == nil, ErrUnknown)
		refuse(h != nil && h.ended != "", ErrOver)
		refuse(h != nil && (h.kept.Requester != r.Requester || h.kept.Provider != r.Provider || !h.kept.Amounts.Equal(r.Amounts)), ErrMalformed)
	}
	return no
}

func (n *naive) recordHolds(e *Event) {
	switch change := e.Change.(type) {
	case *EndQuote:
		n.letGo(n.findHold(change.Name), change.Reason, "")
	case *HoldQuote:
		n.quotes = append(n.quotes, &naiveHold{kept: *change})
	case *TakeQuote:
		n.letGo(n.findHold(change.Quote), HoldTaken, change.Name)
		n.recordEvent(&Event{At: e.At, By: e.By, Change: &change.Reserve})
	}
}

func (n *naive) letGo(h *naiveHold, why HoldEnding, takenBy string) {
	for _, other := range n.quotes {
		if other.kept.Requester == h.kept.Requester && other.ended != "" {
			other.after++
		}
	}
	h.ended, h.takenBy = why, takenBy
}

func (n *naive) loseHolds() {
	for _, h := range slices.Clone(n.quotes) {
		if h.ended == "" {
			n.letGo(h, HoldLost, "")
		}
	}
}

// countRemembered counts the quotes that the book must still know.
func (n *naive) countRemembered() int {
	count := 0
	for _, h := range n.quotes {
		if h.after < 100 {
			count++
		}
	}
	return count
}

func (n *naive) holdsDiffer(s *State) error {
	held := map[string]int{}
	for _, h := range n.quotes {
		q, _ := s.QuoteByKey(h.kept.Requester, h.kept.Key)
		if h.after >= 100 {
			continue
		}
		if q == nil || q != s.Quotes().Named(h.kept.Name) {
			return fmt.Errorf("quote %s is not found by its key", h.kept.Name)
		}
		if q.Ended != h.ended || q.TakenBy != h.takenBy || !q.Until.Equal(h.kept.Until) || q.HeldAt.IsZero() {
			return fmt.Errorf("quote %s: %+v, want %+v", q.Name, q, h)
		}
		if h.ended == "" {
			held[h.kept.Requester]++
		}
	}
	if got := len(s.quotes.named); got != n.countRemembered() {
		return fmt.Errorf("%d quotes, want %d", got, n.countRemembered())
	}
	sum := 0
	for requester, want := range held {
		if got := len(s.Quotes().HeldFor(requester)); got != want {
			return fmt.Errorf("%d quotes are held for %s, want %d", got, requester, want)
		}
		sum += want
	}
	if got := len(s.Quotes().AllHeld()); got != sum {
		return fmt.Errorf("%d quotes are held, want %d", got, sum)
	}
	return nil
}

// anyHold usually returns the name of a held quote.
func (m *machine) anyHold(c choose) string {
	for _, h := range m.naive.quotes {
		if h.ended == "" && c(5) > 0 {
			return h.kept.Name
		}
	}
	return fmt.Sprint("q", c(20))
}

func (m *machine) anyKeep(c choose) Event {
	e := keep(fmt.Sprint("q", c(20+len(m.history))), oneOf(c, paris, paris, berlin, oslo, "nowhere"), m.anyAmounts(c))
	e.Change.(*HoldQuote).Requester = oneOf(c, rome, rome, "athens")
	if c(6) == 0 {
		e.Change.(*HoldQuote).Key = m.anyKey(c)
	}
	if c(20) == 0 {
		e.Change.(*HoldQuote).Until = time.Time{}
	}
	return e
}

func (m *machine) anyLetGo(c choose) Event {
	return letGo(m.anyHold(c), oneOf(c, HoldExpired, HoldReleased, HoldDenied, HoldExpired, HoldReleased, HoldDenied, ""))
}

// anyTake usually takes over exactly the held capacity.
func (m *machine) anyTake(c choose) Event {
	e := m.anyReserve(c)
	for tries := 0; m.naive.findEntry(e.Change.(*Reserve).Name) != nil && tries < 5; tries++ {
		e = m.anyReserve(c)
	}
	t := &TakeQuote{Quote: m.anyHold(c), Reserve: *e.Change.(*Reserve)}
	if h := m.naive.findHold(t.Quote); h != nil && c(6) > 0 {
		t.Requester, t.Provider, t.Amounts = h.kept.Requester, h.kept.Provider, h.kept.Amounts
	}
	return Event{Change: t}
}
