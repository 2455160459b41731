package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// keep returns a quote held for rome, with the key "quote/" plus the name.
func keep(name, provider string, amounts quantity.Amounts) Event {
	return Event{Change: &HoldQuote{Reserve: Reserve{
		Name: name, Digest: "digest", Request: Request{Key: "quote/" + name, Requester: rome, Amounts: amounts},
		Until: begin.Add(time.Minute), Provider: provider,
	}}}
}

func letGo(name string, why HoldEnding) Event {
	return Event{Change: &EndQuote{Name: name, Reason: why}}
}

// take returns a reservation of the capacity held for a quote.
func take(name, quote, provider string, amounts quantity.Amounts) Event {
	return Event{Change: &TakeQuote{Quote: quote, Reserve: *reserve(name, provider, amounts).Change.(*Reserve)}}
}

// TestHeldForQuotes checks how much of 8 cores paris can still grant after a sequence of events.
func TestHeldForQuotes(t *testing.T) {
	held := keep("q", paris, cpu(3000))
	restored := func(seen uint64) Event {
		return Event{Change: &Lineage{ID: fmt.Sprint("l", seen), Seen: seen, By: rome}}
	}
	first := Event{Change: &Lineage{ID: "first", Key: []byte("key")}}
	cases := map[string]struct {
		events []Event
		want   int64
	}{
		"what is held is taken off":                       {[]Event{held}, 5000},
		"it is free again once it is let go":              {[]Event{held, letGo("q", HoldExpired)}, 8000},
		"taken over it is taken off once":                 {[]Event{held, take("r", "q", paris, cpu(3000))}, 5000},
		"what is taken over is held as any placement is":  {[]Event{held, take("r", "q", paris, cpu(3000)), end("r", EndReleased)}, 5000},
		"it is taken over though others took the rest":    {[]Event{held, reserve("s", paris, cpu(5000)), take("r", "q", paris, cpu(3000))}, 0},
		"it is taken over though its provider has less":   {[]Event{held, offer(paris, cpu(1000)), take("r", "q", paris, cpu(3000)), offer(paris, cpu(4000))}, 1000},
		"an offer leaves it held":                         {[]Event{held, offer(paris, cpu(4000))}, 1000},
		"the first lineage leaves it held":                {[]Event{held, first}, 5000},
		"of a state that was restored nothing stays held": {[]Event{held, first, restored(9)}, 8000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBook(t, offer(rome, nil), offer(paris, cpu(8000)))
			b.applyAll(tc.events...)
			b.wantAvailable(paris, cpu(tc.want))
			again, err := Restore([]byte(b.encodeSnapshot()))
			runtest.Check(t, err)
			book{t, again}.wantAvailable(paris, cpu(tc.want))
		})
	}
}

func TestUnheldQuoteIsNotTakenOver(t *testing.T) {
	other := take("r", "q", paris, cpu(3000))
	other.Change.(*TakeQuote).Requester = berlin
	cases := map[string]struct {
		event Event
		want  error
	}{
		"a quote that is not known":  {take("r", "none", paris, cpu(3000)), ErrUnknown},
		"a quote that is over":       {take("r", "over", paris, cpu(1000)), ErrOver},
		"a quote that is taken":      {take("r", "taken", paris, cpu(1000)), ErrOver},
		"another's quote":            {other, ErrMalformed},
		"other amounts":              {take("r", "q", paris, cpu(3001)), ErrMalformed},
		"another provider":           {take("r", "q", berlin, cpu(3000)), ErrMalformed},
		"more than fits is not held": {keep("more", paris, cpu(5000)), ErrOverbooked},
		"a name that is held":        {keep("q", paris, cpu(1)), ErrTaken},
		"a quote let go twice":       {letGo("over", HoldExpired), ErrOver},
	}
	b := newBook(t, offer(paris, cpu(8000)), offer(berlin, cpu(8000)), keep("q", paris, cpu(3000)),
		keep("over", paris, cpu(1000)), letGo("over", HoldExpired), keep("taken", paris, cpu(1000)), take("s", "taken", paris, cpu(1000)))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := b.Check(&tc.event); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// The outcome of a quote is known until a hundred other quotes of its requester have ended after
// it.
func TestQuotesAreForgotten(t *testing.T) {
	b := newBook(t, offer(paris, cpu(8000)), keep("still", paris, cpu(1000)))
	for i := range 101 {
		name := fmt.Sprint("q", i)
		b.applyAll(keep(name, paris, cpu(1000)), letGo(name, HoldExpired))
	}
	for name, want := range map[string]bool{"q0": false, "q1": true, "q100": true, "still": true} {
		if got, _ := b.QuoteByKey(rome, "quote/"+name); (got != nil) != want || got != b.Quotes().Named(name) {
			t.Errorf("quote %s: %+v, known: want %t", name, got, want)
		}
	}
	again, err := Restore([]byte(b.encodeSnapshot()))
	runtest.Check(t, err)
	for _, s := range []book{b, {t, again}} {
		s.applyAll(keep("last", paris, cpu(1000)), letGo("last", HoldExpired))
		if s.Quotes().Named("q1") != nil || s.Quotes().Named("q2") == nil {
			t.Errorf("the oldest is %+v, the next %+v", s.Quotes().Named("q1"), s.Quotes().Named("q2"))
		}
	}
}
