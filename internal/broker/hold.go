package broker

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	// longestHold is how long a quote is held at most: enough for a person to decide, and
	// little for capacity that nobody uses. It is no setting, as nothing that runs depends
	// on it.
	longestHold = 5 * time.Minute
	// mostHeld is how many quotes are held for one cluster at once, so that comparing
	// quotes is possible and keeping everything is not. How often one may ask is in
	// BrokerConfig, and what one may ask for.
	mostHeld = 10
	// holdDue marks an entry of deadlines that speaks of a quote.
	holdDue = "hold/"
)

// quoteKey is the key of a quote in the book. A key over REST has no slash, so the same
// one can be used for the reservation.
func quoteKey(key string) string { return "quote/" + key }

// holdOf is for how long a quote is to be held, 0 for not at all.
func holdOf(key string, req *v1.ReservationRequest) (time.Duration, error) {
	hold := time.Duration(req.HoldSeconds) * time.Second
	switch {
	case req.Quote != "":
		return 0, fault.New(fault.Invalid, "quote: a quote cannot take over quote %q: ask for a reservation", message.Clip(req.Quote, 63))
	case req.HoldSeconds < 0 || req.HoldSeconds > int64(longestHold/time.Second):
		return 0, fault.New(fault.Invalid, "holdSeconds: %d is not between 1 and %d", req.HoldSeconds, int64(longestHold/time.Second))
	case hold != 0 && key == "":
		return 0, fault.New(fault.Invalid, "Idempotency-Key: missing; a quote with holdSeconds needs one, so that a repetition holds nothing more")
	}
	return hold, nil
}

// quoted is the digest of what a quote is for. Who takes it over may name what else goes
// with a reservation.
func (r *Request) quoted() string {
	q := *r
	q.Tenant, q.Priority, q.Queue, q.Wait, q.Patient = "", 0, false, 0, false
	return q.digest()
}

// keep decides and holds what was chosen, or finds what is held under the key.
func (t *term) keep(q *Request, hold time.Duration) (*v1.Quote, error) {
	q.Key = quoteKey(q.Key)
	held, shut := t.state.QuoteByKey(q.Requester, q.Key)
	switch {
	case shut:
		return nil, fault.New(fault.Released, "the quote was given back before it was asked for: use a new key")
	case held != nil && (held.Digest != q.quoted() || held.Until.Sub(held.HeldAt) != hold):
		return nil, fault.New(fault.KeyReused, "the key belongs to quote %q, which is for something else: use a new key", held.Name)
	case held != nil && t.isOver(held):
		return nil, errNotHeld(held)
	case held != nil:
		return t.heldQuote(held), nil
	}
	if err := t.mayAsk(q); err != nil {
		return nil, err
	}
	if err := t.mayHold(q.Requester); err != nil {
		return nil, err
	}
	out, choice, err := t.quote(q)
	if err != nil || choice == nil {
		return out, err
	}
	keep := &ledger.Keep{Reserve: *t.reserveOf(q, "quo-"), PriceTotal: out.PriceTotal, RatesDate: out.RatesDate}
	keep.Digest, keep.Provider, keep.Explanation, keep.Until = q.quoted(), choice.winner, choice.explanation, t.now().Add(hold)
	if err := t.record(ledger.Event{Keep: keep}); err != nil {
		return nil, err
	}
	t.b.opts.Log.Info("quote is held", "quote", keep.Name, "requester", q.Requester, "target", keep.Provider,
		"resources", describe(q.Amounts), "until", keep.Until)
	t.name(out, t.state.Quote(keep.Name))
	return out, nil
}

func (t *term) name(out *v1.Quote, held *ledger.Quote) {
	out.Name, out.HeldUntil, out.RemainingSeconds = held.Name, held.Until, max(held.Until.Sub(t.now()), 0).Seconds()
}

// mayHold refuses to hold more for a requester than it may have held at once.
func (t *term) mayHold(requester string) error {
	held := t.state.HeldFor(requester)
	if len(held) < mostHeld {
		return nil
	}
	first := held[0].Until
	for _, q := range held {
		if q.Until.Before(first) {
			first = q.Until
		}
	}
	e := fault.New(fault.TooManyRequests, "%d quotes are held for cluster %q, the most there may be: take one over, or give it back", len(held), requester)
	e.RetryAfter = max(first.Sub(t.now()), time.Second)
	return e
}

// heldQuote is the answer to a repetition: what was quoted, though it may be otherwise now.
func (t *term) heldQuote(held *ledger.Quote) *v1.Quote {
	out := &v1.Quote{
		ClusterID: held.Provider, Resources: wire.FromAmounts(held.Amounts), Hours: hoursOf(held.Duration),
		PriceTotal: held.PriceTotal, RatesDate: held.RatesDate, Rejected: map[string]int32{},
	}
	maps.Copy(out.Rejected, held.Explanation.Rejected())
	candidates := shownCandidates(held.Explanation.Candidates())
	for i := range candidates {
		if c := &candidates[i]; c.ClusterID == held.Provider {
			c.PriceTotal = held.PriceTotal
			out.PricePerHour, out.Currency = c.PricePerHour, c.Currency
		}
	}
	out.Candidates = t.b.config.Visibility.of(candidates, held.Provider, held.Target)
	t.name(out, held)
	return out
}

// isOver is whether a quote cannot be taken over any more, be that noted or not.
func (t *term) isOver(held *ledger.Quote) bool {
	return held.Over() || held.Ended == "" && !t.now().Before(held.Until)
}

func errNotHeld(held *ledger.Quote) *fault.Error {
	why := "was held until " + held.Until.Format(time.RFC3339)
	switch held.Ended {
	case ledger.HoldReleased:
		why = "was given back"
	case ledger.HoldTaken:
		why = fmt.Sprintf("was taken over by reservation %q", held.TakenBy)
	case ledger.HoldDenied:
		why = "is not held any more: its requester or its provider was shut out"
	case ledger.HoldLost:
		why = "is not held any more: the broker was restored from an older state"
	}
	return fault.New(fault.Released, "quote %q %s; ask for another one, with a new key", held.Name, why)
}

// takeOver grants a reservation what is held for it.
func (t *term) takeOver(q *Request) (*ledger.Reservation, error) {
	held := t.state.Quote(q.Quote)
	switch {
	case held == nil || held.Requester != q.Requester:
		return nil, fault.New(fault.NotFound, "quote: %q is none of cluster %q, or ended long ago: ask for another one", message.Clip(q.Quote, 63), q.Requester)
	case t.isOver(held):
		return nil, errNotHeld(held)
	case held.Digest != q.quoted():
		return nil, fault.New(fault.Conflict, "quote %q is for something else: %s; ask for what was quoted, or for another quote",
			held.Name, strings.Join(differences(&held.Reserve, q), ", "))
	case t.awaits(held.Provider) || t.unmet(t.state.Cluster(held.Provider)):
		return nil, t.errRecovering()
	}
	return t.grantNew(q, choice{held.Provider, held.Explanation}, func(r *ledger.Reserve) ledger.Event {
		return ledger.Event{Take: &ledger.Take{Quote: held.Name, Reserve: *r}}
	})
}

// differences names what a request has otherwise than its quote.
func differences(held *ledger.Reserve, q *Request) []string {
	var out []string
	add := func(differs bool, format string, args ...any) {
		if differs {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(!held.Amounts.Equal(q.Amounts), "resources %s instead of %s", describe(q.Amounts), describe(held.Amounts))
	add(held.Duration != q.Duration, "duration %s instead of %s", q.Duration, held.Duration)
	add(held.Target != q.Target, "targetClusterID %q instead of %q", q.Target, held.Target)
	terms := *q
	terms.Amounts, terms.Duration, terms.Target = held.Amounts, held.Duration, held.Target
	add(held.Digest != terms.quoted(), "other group, constraints, podShapes or data")
	return out
}

// ReleaseQuote implements the server's Broker. What is held no more is left as it is, and
// a key that is not known is shut.
func (b *Broker) ReleaseQuote(ctx context.Context, clusterID, nameOrKey string) error {
	return b.changeOf(ctx, clusterID, func(t *term) error {
		held := t.state.Quote(nameOrKey)
		if held == nil || held.Requester != clusterID {
			var shut bool
			if held, shut = t.state.QuoteByKey(clusterID, quoteKey(nameOrKey)); shut {
				return nil
			}
		}
		switch {
		case held == nil:
			return t.shut(clusterID, quoteKey(nameOrKey))
		case held.Ended != "":
			return nil
		}
		return t.letGo(held, ledger.HoldReleased)
	})
}

func (t *term) letGo(held *ledger.Quote, why ledger.HoldEnding) error {
	t.b.opts.Log.Info("quote is let go", "quote", held.Name, "requester", held.Requester, "target", held.Provider, "why", why)
	return t.record(ledger.Event{LetGo: &ledger.LetGo{Name: held.Name, Reason: why}})
}

// followHold brings up to date what depends on a quote that is held now, or no more.
func (t *term) followHold(held *ledger.Quote) {
	t.relist(held.Provider)
	if held.Ended == "" {
		t.due.set(holdDue+held.Name, t.heldUntil(held))
		return
	}
	t.grew(held.Provider)
	t.affect(&held.Reserve)
}

// heldUntil is now for whoever was shut out.
func (t *term) heldUntil(held *ledger.Quote) time.Time {
	if t.isDenied(held) {
		return t.now()
	}
	return held.Until
}

func (t *term) isDenied(held *ledger.Quote) bool {
	return t.b.configured && (t.checkRequester(held.Requester) != nil || t.shutOut(t.state.Cluster(held.Provider)))
}

// reviewHolds has holds end that the configuration does not allow any more, and the others
// at their time.
func (t *term) reviewHolds() {
	for _, held := range t.state.AllHeld() {
		t.due.set(holdDue+held.Name, t.heldUntil(held))
	}
}

// expireHold ends one that is due.
func (t *term) expireHold(name string) {
	held := t.state.Quote(name)
	if held == nil || held.Ended != "" {
		return
	}
	why := ledger.HoldExpired
	if t.isDenied(held) {
		why = ledger.HoldDenied
	} else if t.now().Before(held.Until) {
		t.due.set(holdDue+name, held.Until)
		return
	}
	if err := t.letGo(held, why); err != nil {
		t.b.opts.Log.Error(err, "a quote could not be let go; trying again", "quote", name)
		t.due.set(holdDue+name, t.now().Add(reopenDelay))
	}
}
