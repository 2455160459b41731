// Package quotes answers requests for quotes, and manages the quotes for which capacity is held.
package quotes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/visibility"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	// defaultHold is the longest time for which a quote may be held, unless BrokerConfig sets
	// another. It is enough for a person to decide, and short enough not to waste capacity.
	defaultHold = 5 * time.Minute
	// longestHold is the longest time for which BrokerConfig and the REST API allow a quote to be
	// held.
	longestHold = time.Hour
	// MaxHeld is how many quotes one requester may have held at the same time. It is enough
	// to compare quotes, and too few to block all clusters. BrokerConfig limits how often a
	// cluster may ask, and for how much.
	MaxHeld = 10
	// Due is the prefix of the names of the deadlines at which held quotes end.
	Due = "hold/"
	// maxCandidates is how many candidates are explained in a quote.
	maxCandidates = 100
)

// Session is what quotes need of the broker's session.
type Session interface {
	term.Term
	// CheckNew returns an error for a new request that may have been granted in a lost part of the
	// journal, or for which CheckAllowed returns one.
	CheckNew(q *requests.Request) error
	// CheckAllowed returns an error for a request beyond the bounds, or whose requester is denied.
	CheckAllowed(q *requests.Request) error
	// CheckSettled returns fault.Recovering while a provider must announce its holdings.
	CheckSettled(provider string) error
	// IsShutOut reports whether the administrator's configuration excludes a requester or a provider.
	IsShutOut(requester, provider string) bool
	// DecideNew chooses a provider for a new request. It returns fault.NoCandidate if none can serve it.
	DecideNew(q *requests.Request) (*term.Decision, error)
	// Until undo is called, SupposeElastic counts nodes that clusters can create as if they existed.
	SupposeElastic() (undo func())
	// JudgeCandidates returns the first verdicts about a request, at most that many, and counts the rejections by
	// reason.
	JudgeCandidates(q *requests.Request, most int) ([]decision.Verdict, map[string]int32)
	// NewReserve returns a Reserve for a request, with a new name.
	NewReserve(q *requests.Request, prefix string) *ledger.Reserve
	// Bounds has the configured limit of a hold, 0 for none.
	Bounds() *requests.Bounds
	// Visibility is what requesters are told, RatesDate the date of the exchange rates.
	Visibility() visibility.Visibility
	RatesDate() string
	// NoteHold says that the hold of a quote has begun or ended.
	NoteHold(held *ledger.Quote)
}

// Quotes manages the quotes for which capacity is held. All of its state is in the book.
type Quotes struct{ s Session }

// New returns the Quotes of a session.
func New(s Session) *Quotes { return &Quotes{s} }

// Key returns the key in the book of a quote that was requested with a key. Keys of requests
// contain no slash, so a requester can use the same key for a quote and for a reservation.
func Key(key string) string { return "quote/" + key }

// ReadHoldTime returns how long to hold a quote, 0 if the request does not ask to hold it.
func ReadHoldTime(key string, req *v1.ReservationRequest) (time.Duration, error) {
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

// Hold makes a quote and holds its capacity. If the key was used before, it returns the earlier
// quote. If no cluster can serve the request, the quote says why and holds nothing.
func (qs *Quotes) Hold(q *requests.Request, hold time.Duration) (*v1.Quote, error) {
	q.Key = Key(q.Key)
	held, closed := qs.s.Book().QuoteByKey(q.Requester, q.Key)
	switch {
	case closed:
		return nil, fault.New(fault.Released, "the quote was released before it was requested: use a new key")
	case held != nil && (held.Digest != q.QuoteDigest() || held.Until.Sub(held.HeldAt).Round(time.Second) != hold): // HeldAt is a moment after the decision
		return nil, fault.New(fault.KeyReused, "the key belongs to quote %q, which is for something else: use a new key", held.Name)
	case held != nil && qs.isOver(held):
		return nil, errNotHeld(held)
	case held != nil:
		return qs.answerHeld(held), nil
	}
	if err := qs.s.CheckNew(q); err != nil {
		return nil, err
	}
	if most := cmp.Or(qs.s.Bounds().QuoteHold, defaultHold); hold > most {
		return nil, fault.New(fault.Invalid, "hold: %s is longer than a quote may be held: the longest is %s, set by BrokerConfig.spec.maxQuoteHold; ask for less", hold, most)
	}
	if err := qs.checkLimit(q.Requester); err != nil {
		return nil, err
	}
	out, choice, err := qs.Price(q)
	if err != nil || choice == nil {
		return out, err
	}
	keep := &ledger.HoldQuote{Reserve: *qs.s.NewReserve(q, "quo-"), PriceTotal: out.PriceTotal, RatesDate: out.RatesDate}
	keep.Digest, keep.Provider, keep.Explanation, keep.Price, keep.Until = q.QuoteDigest(), choice.Provider, choice.Explanation, choice.Price, qs.s.Now().Add(hold)
	if err := qs.s.Record(ledger.Event{By: q.By, Change: keep}); err != nil {
		return nil, err
	}
	qs.s.Log().Info("holding a quote", "quote", keep.Name, "requester", q.Requester, "target", keep.Provider,
		"resources", q.Amounts.Describe(), "until", keep.Until)
	qs.nameHeld(out, qs.s.Book().Quotes().Named(keep.Name))
	return out, nil
}

func (qs *Quotes) nameHeld(out *v1.Quote, held *ledger.Quote) {
	out.Name, out.HeldUntil, out.RemainingSeconds = held.Name, held.Until, max(held.Until.Sub(qs.s.Now()), 0).Seconds()
}

func (qs *Quotes) checkLimit(requester string) error {
	held := qs.s.Book().Quotes().HeldFor(requester)
	if len(held) < MaxHeld {
		return nil
	}
	first := slices.MinFunc(held, func(a, b *ledger.Quote) int { return a.Until.Compare(b.Until) }).Until
	return fault.New(fault.TooManyRequests, "%d quotes are held for cluster %q, which is the maximum: take one over, or release one", len(held), requester).
		RetryIn(max(first.Sub(qs.s.Now()), time.Second))
}

// answerHeld returns a held quote again, with the original figures, even if a decision made now
// would differ.
func (qs *Quotes) answerHeld(held *ledger.Quote) *v1.Quote {
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
			out.PricePerHour, out.Currency, out.NotPriced = c.PricePerHour, c.Currency, c.NotPriced
		}
		candidates = append(candidates, quoted)
	}
	out.Candidates = qs.s.Visibility().OfQuote(candidates, held.Provider, held.Target)
	qs.nameHeld(out, held)
	return out
}

// isOver reports whether a quote can no longer be taken over. The event that ends it may not be
// recorded yet.
func (qs *Quotes) isOver(held *ledger.Quote) bool {
	return held.Over() || held.Ended == "" && !qs.s.Now().Before(held.Until)
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

// FindHeld returns the held quote that a request takes over, or an error if the quote is over, is for
// something else, or belongs to another requester.
func (qs *Quotes) FindHeld(q *requests.Request) (*ledger.Quote, error) {
	held := qs.s.Book().Quotes().Named(q.Quote)
	switch {
	case held == nil || held.Requester != q.Requester:
		return nil, fault.New(fault.NotFound, "quote: %q does not belong to cluster %q, or ended long ago: ask for another one", message.Clip(q.Quote, 63), q.Requester)
	case qs.isOver(held):
		return nil, errNotHeld(held)
	case held.Digest != q.QuoteDigest():
		return nil, fault.New(fault.Conflict, "quote %q is for something else: %s; ask for what was quoted, or for another quote",
			held.Name, strings.Join(listDifferences(&held.Reserve, q), ", "))
	}
	return held, qs.s.CheckSettled(held.Provider)
}

func listDifferences(held *ledger.Reserve, q *requests.Request) []string {
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

// Release ends the hold of a quote that its requester names by its name or key. It returns false if there
// is no such quote.
func (qs *Quotes) Release(requester, nameOrKey string) (known bool, err error) {
	held := qs.s.Book().Quotes().Named(nameOrKey)
	if held == nil || held.Requester != requester {
		var closed bool
		if held, closed = qs.s.Book().QuoteByKey(requester, Key(nameOrKey)); closed {
			return true, nil
		}
	}
	if held == nil || held.Ended != "" {
		return held != nil, nil
	}
	return true, qs.End(held, ledger.UserOf(requester, ""), ledger.HoldReleased)
}

// End records that a quote is no longer held, and why.
func (qs *Quotes) End(held *ledger.Quote, by ledger.Actor, why ledger.HoldEnding) error {
	qs.s.Log().Info("quote ended", "quote", held.Name, "requester", held.Requester, "target", held.Provider, "why", why)
	return qs.s.Record(ledger.Event{By: by, Change: &ledger.EndQuote{Name: held.Name, Reason: why}})
}

// Observe implements term.Observer.
func (qs *Quotes) Observe(e term.Event) {
	name := ""
	switch change := e.Change.(type) {
	case *ledger.HoldQuote:
		name = change.Name
	case *ledger.EndQuote:
		name = change.Name
	default:
		return
	}
	held := qs.s.Book().Quotes().Named(name)
	qs.s.NoteHold(held)
	if held.Ended == "" {
		qs.s.SetDeadline(Due+held.Name, qs.deadlineOf(held))
	}
}

// deadlineOf returns when the hold of a quote ends. It returns the present time if isShutOut is
// true for the quote.
func (qs *Quotes) deadlineOf(held *ledger.Quote) time.Time {
	if qs.isShutOut(held) {
		return qs.s.Now()
	}
	return held.Until
}

func (qs *Quotes) isShutOut(held *ledger.Quote) bool {
	return qs.s.IsShutOut(held.Requester, held.Provider)
}

// RescheduleAll recomputes the deadlines of all held quotes after the configuration has changed.
func (qs *Quotes) RescheduleAll() {
	for _, held := range qs.s.Book().Quotes().AllHeld() {
		qs.s.SetDeadline(Due+held.Name, qs.deadlineOf(held))
	}
}

// Expire ends a quote whose deadline has come.
func (qs *Quotes) Expire(name string) {
	held := qs.s.Book().Quotes().Named(name)
	if held == nil || held.Ended != "" {
		return
	}
	why := ledger.HoldExpired
	if qs.isShutOut(held) {
		why = ledger.HoldDenied
	} else if qs.s.Now().Before(held.Until) {
		qs.s.SetDeadline(Due+name, held.Until)
		return
	}
	if err := qs.End(held, ledger.Deadlines, why); err != nil {
		qs.s.Log().Error(err, "ending a quote failed, retrying", "quote", name)
		qs.s.SetDeadline(Due+name, qs.s.Now().Add(term.RetryDelay))
	}
}
