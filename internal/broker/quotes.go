package broker

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	// defaultQuoteHold is the longest time for which a quote may be held, unless BrokerConfig sets
	// another. It is enough for a person to decide, and short enough not to waste capacity.
	defaultQuoteHold = 5 * time.Minute
	// longestHold is the longest time for which BrokerConfig and the REST API allow a quote to be
	// held.
	longestHold = time.Hour
	// maxHeldQuotes is how many quotes one requester may have held at the same time. It is enough
	// to compare quotes, and too few to block all clusters. BrokerConfig limits how often a
	// cluster may ask, and for how much.
	maxHeldQuotes = 10
	// holdDue is the prefix of the names of the deadlines at which held quotes end.
	holdDue = "hold/"
)

// quotes manages the quotes for which capacity is held. All of its state is in the book.
type quotes struct{ s *session }

// quoteKey returns the key in the book of a quote that was requested with a key. Keys of requests
// contain no slash, so a requester can use the same key for a quote and for a reservation.
func quoteKey(key string) string { return "quote/" + key }

// readHoldTime returns how long to hold a quote, 0 if the request does not ask to hold it.
func readHoldTime(key string, req *v1.ReservationRequest) (time.Duration, error) {
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

// holdQuote makes a quote and holds its capacity. If the key was used before, it returns the earlier
// quote. If no cluster can serve the request, the quote says why and holds nothing.
func (qs *quotes) holdQuote(q *Request, hold time.Duration) (*v1.Quote, error) {
	q.Key = quoteKey(q.Key)
	held, shut := qs.s.book.QuoteByKey(q.Requester, q.Key)
	switch {
	case shut:
		return nil, fault.New(fault.Released, "the quote was released before it was requested: use a new key")
	case held != nil && (held.Digest != q.QuoteDigest() || held.Until.Sub(held.HeldAt) != hold):
		return nil, fault.New(fault.KeyReused, "the key belongs to quote %q, which is for something else: use a new key", held.Name)
	case held != nil && qs.isOver(held):
		return nil, errNotHeld(held)
	case held != nil:
		return qs.answerHeld(held), nil
	}
	if err := qs.s.reservations.checkNew(q); err != nil {
		return nil, err
	}
	if most := cmp.Or(qs.s.config().Bounds.QuoteHold, defaultQuoteHold); hold > most {
		return nil, fault.New(fault.Invalid, "hold: %s is longer than a quote may be held: the longest is %s, set by BrokerConfig.spec.maxQuoteHold; ask for less", hold, most)
	}
	if err := qs.checkLimit(q.Requester); err != nil {
		return nil, err
	}
	out, choice, err := qs.priceRequest(q)
	if err != nil || choice == nil {
		return out, err
	}
	keep := &ledger.Keep{Reserve: *qs.s.reservations.newReserve(q, "quo-"), PriceTotal: out.PriceTotal, RatesDate: out.RatesDate}
	keep.Digest, keep.Provider, keep.Explanation, keep.Price, keep.Until = q.QuoteDigest(), choice.Provider, choice.Explanation, choice.Price, qs.s.now().Add(hold)
	if err := qs.s.record(ledger.Event{By: q.By, Change: keep}); err != nil {
		return nil, err
	}
	qs.s.log.Info("holding a quote", "quote", keep.Name, "requester", q.Requester, "target", keep.Provider,
		"resources", q.Amounts.Describe(), "until", keep.Until)
	qs.nameHeld(out, qs.s.book.Quotes().Named(keep.Name))
	return out, nil
}

// nameHeld sets the name and the end of a held quote in an answer.
func (qs *quotes) nameHeld(out *v1.Quote, held *ledger.Quote) {
	out.Name, out.HeldUntil, out.RemainingSeconds = held.Name, held.Until, max(held.Until.Sub(qs.s.now()), 0).Seconds()
}

// checkLimit returns an error if the requester has maxHeldQuotes held quotes already.
func (qs *quotes) checkLimit(requester string) error {
	held := qs.s.book.Quotes().HeldFor(requester)
	if len(held) < maxHeldQuotes {
		return nil
	}
	first := held[0].Until
	for _, q := range held {
		if q.Until.Before(first) {
			first = q.Until
		}
	}
	e := fault.New(fault.TooManyRequests, "%d quotes are held for cluster %q, which is the maximum: take one over, or release one", len(held), requester)
	e.RetryAfter = max(first.Sub(qs.s.now()), time.Second)
	return e
}

// answerHeld returns a held quote again, with the original figures, even if a decision made now
// would differ.
func (qs *quotes) answerHeld(held *ledger.Quote) *v1.Quote {
	out := &v1.Quote{
		ClusterID: held.Provider, Resources: wire.FromAmounts(held.Amounts), Hours: billedHours(held.Duration),
		PriceTotal: held.PriceTotal, RatesDate: held.RatesDate, Rejected: map[string]int32{},
	}
	maps.Copy(out.Rejected, held.Explanation.Rejected())
	var candidates []v1.QuotedCandidate
	for _, c := range held.Explanation.Candidates() {
		quoted := v1.QuotedCandidate{Candidate: c}
		if c.ClusterID == held.Provider {
			quoted.PriceTotal = held.PriceTotal
			out.PricePerHour, out.Currency = c.PricePerHour, c.Currency
		}
		candidates = append(candidates, quoted)
	}
	out.Candidates = qs.s.config().Visibility.OfQuote(candidates, held.Provider, held.Target)
	qs.nameHeld(out, held)
	return out
}

// isOver reports whether a quote can no longer be taken over. The event that ends it may not be
// recorded yet.
func (qs *quotes) isOver(held *ledger.Quote) bool {
	return held.Over() || held.Ended == "" && !qs.s.now().Before(held.Until)
}

func errNotHeld(held *ledger.Quote) *fault.Error {
	why := "was held until " + held.Until.Format(time.RFC3339)
	switch held.Ended {
	case ledger.HoldReleased:
		why = "was released"
	case ledger.HoldTaken:
		why = fmt.Sprintf("was taken over by reservation %q", held.TakenBy)
	case ledger.HoldDenied:
		why = "is no longer held: its requester or its provider was denied, or its provider was cordoned"
	case ledger.HoldLost:
		why = "is no longer held: the broker was restored from an older state"
	}
	return fault.New(fault.Released, "quote %q %s; ask for another one, with a new key", held.Name, why)
}

// takeOver grants the request a reservation with the capacity that is held for its quote.
func (qs *quotes) takeOver(q *Request) (*ledger.Reservation, error) {
	held := qs.s.book.Quotes().Named(q.Quote)
	switch {
	case held == nil || held.Requester != q.Requester:
		return nil, fault.New(fault.NotFound, "quote: %q does not belong to cluster %q, or ended long ago: ask for another one", message.Clip(q.Quote, 63), q.Requester)
	case qs.isOver(held):
		return nil, errNotHeld(held)
	case held.Digest != q.QuoteDigest():
		return nil, fault.New(fault.Conflict, "quote %q is for something else: %s; ask for what was quoted, or for another quote",
			held.Name, strings.Join(listDifferences(&held.Reserve, q), ", "))
	case qs.s.recovery.IsBlocked(held.Provider) || qs.s.recovery.IsUnseen(qs.s.book.Cluster(held.Provider)):
		return nil, qs.s.recovery.ErrRecovering()
	}
	return qs.s.reservations.grantNew(q, term.Decision{Provider: held.Provider, Explanation: held.Explanation, Price: held.Price}, func(r *ledger.Reserve) ledger.Change {
		return &ledger.Take{Quote: held.Name, Reserve: *r}
	})
}

// listDifferences describes how a request differs from the quote that it wants to take over.
func listDifferences(held *ledger.Reserve, q *Request) []string {
	var out []string
	add := func(differs bool, format string, args ...any) {
		if differs {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(!held.Amounts.Equal(q.Amounts), "resources %s instead of %s", q.Amounts.Describe(), held.Amounts.Describe())
	add(held.Duration != q.Duration, "duration %s instead of %s", q.Duration, held.Duration)
	add(held.Target != q.Target, "targetClusterID %q instead of %q", q.Target, held.Target)
	before, now := ptr.Deref(held.Requirements, brokerv1alpha1.Requirements{}), ptr.Deref(q.Requirements, brokerv1alpha1.Requirements{})
	add(before.Group != now.Group, "group %q instead of %q", now.Group, before.Group)
	add(!equality.Semantic.DeepEqual(before.Constraints, now.Constraints), "other constraints")
	add(!equality.Semantic.DeepEqual(before.PodShapes, now.PodShapes), "other podShapes")
	add(!equality.Semantic.DeepEqual(before.Data, now.Data), "other data")
	if len(out) == 0 {
		out = append(out, "the same in another notation")
	}
	return out
}

// ReleaseQuote implements the server's Broker. If the quote has ended, nothing changes. If there is
// no quote with this key, the key is closed, so that a request that arrives later is refused.
func (b *Broker) ReleaseQuote(ctx context.Context, clusterID, nameOrKey string) error {
	return b.commitPlanFor(ctx, clusterID, func(s *session) error {
		held := s.book.Quotes().Named(nameOrKey)
		if held == nil || held.Requester != clusterID {
			var shut bool
			if held, shut = s.book.QuoteByKey(clusterID, quoteKey(nameOrKey)); shut {
				return nil
			}
		}
		switch {
		case held == nil:
			return faultOf(s.accounts.CloseKey(clusterID, quoteKey(nameOrKey), ledger.UserOf(clusterID, "")))
		case held.Ended != "":
			return nil
		}
		return s.quotes.endHold(held, ledger.UserOf(clusterID, ""), ledger.HoldReleased)
	})
}

// endHold records that a quote is no longer held, and why.
func (qs *quotes) endHold(held *ledger.Quote, by ledger.Actor, why ledger.HoldEnding) error {
	qs.s.log.Info("quote ended", "quote", held.Name, "requester", held.Requester, "target", held.Provider, "why", why)
	return qs.s.record(ledger.Event{By: by, Change: &ledger.LetGo{Name: held.Name, Reason: why}})
}

func (qs *quotes) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Keep:
		qs.updateDependents(qs.s.book.Quotes().Named(change.Name))
	case *ledger.LetGo:
		qs.updateDependents(qs.s.book.Quotes().Named(change.Name))
	}
}

// updateDependents updates free capacity, deadlines and queue after the hold of a quote has begun
// or ended.
func (qs *quotes) updateDependents(held *ledger.Quote) {
	qs.s.clusters.refreshAvailability(held.Provider)
	if held.Ended == "" {
		qs.s.deadlines.setDeadline(holdDue+held.Name, qs.deadlineOf(held))
		return
	}
	qs.s.queue.noteFreed(held.Provider)
	qs.s.queue.noteAffinity(&held.Reserve)
}

// deadlineOf returns when the hold of a quote ends. It returns the present time if isShutOut is
// true for the quote.
func (qs *quotes) deadlineOf(held *ledger.Quote) time.Time {
	if qs.isShutOut(held) {
		return qs.s.now()
	}
	return held.Until
}

// isShutOut reports whether a quote's requester or provider is denied, or its provider is drained
// or cordoned.
func (qs *quotes) isShutOut(held *ledger.Quote) bool {
	_, cordoned := qs.s.drains.Find(held.Provider)
	return qs.s.b.configured && (cordoned || qs.s.reservations.checkRequester(held.Requester) != nil || qs.s.clusters.isDenied(qs.s.book.Cluster(held.Provider)))
}

// rescheduleAll recomputes the deadlines of all held quotes after the configuration has changed.
func (qs *quotes) rescheduleAll() {
	for _, held := range qs.s.book.Quotes().AllHeld() {
		qs.s.deadlines.setDeadline(holdDue+held.Name, qs.deadlineOf(held))
	}
}

// expireQuote ends a quote whose deadline has come.
func (qs *quotes) expireQuote(name string) {
	held := qs.s.book.Quotes().Named(name)
	if held == nil || held.Ended != "" {
		return
	}
	why := ledger.HoldExpired
	if qs.isShutOut(held) {
		why = ledger.HoldDenied
	} else if qs.s.now().Before(held.Until) {
		qs.s.deadlines.setDeadline(holdDue+name, held.Until)
		return
	}
	if err := qs.endHold(held, ledger.Deadlines, why); err != nil {
		qs.s.log.Error(err, "ending a quote failed, retrying", "quote", name)
		qs.s.deadlines.setDeadline(holdDue+name, qs.s.now().Add(reopenDelay))
	}
}
