// Package budget limits how much of the broker one member may use: bytes of the journal, reservations
// and closed keys in the book, and waiting requests.
package budget

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Budget limits how much of the broker one member cluster may use. docs/budgets.md lists all
// limits, including those of the REST server.
type Budget struct {
	// Reservations is how many reservations and closed keys one requester may have in the book, including ended
	// reservations. To make room, the broker forgets the oldest ended ones early. A reservation with long requirements
	// counts as several, see plainBytes.
	Reservations int
	// Waiting is how many requests of one requester may wait; 0 means a quarter of the queue, but at least
	// leastWaiting.
	Waiting int
	// JournalPerHour is how many bytes per hour the calls of one member may add to the journal, on
	// average.
	JournalPerHour int64
}

// Default returns a budget far above what an honest member needs. Ten thousand reservations
// at the same time take about 20 MiB of the journal.
func Default() Budget {
	return Budget{Reservations: 10_000, JournalPerHour: 32 << 20}
}

const (
	// plainBytes is how long the requirements of a reservation may be that counts as one. A longer one counts once more
	// for every plainBytes.
	plainBytes = 1 << 10
	// recordOverhead is added to the size of every record, for its hashes and the work of writing it.
	recordOverhead = 256
	// leastWaiting is how many requests of one member may wait, however short the queue is.
	leastWaiting = 16
	// forgetAtOnce is how many reservations, and how many keys, one event may forget.
	forgetAtOnce = 200
	// KeysDue is the prefix of the names of the deadlines at which the oldest closed keys of a requester are
	// forgotten.
	KeysDue = "keys/"
	// RefusalsDue is the prefix of the names of the deadlines at which a member is no longer shown as
	// over its budget.
	RefusalsDue = "budget/"
	// refusalShown is how long a member is shown as over its budget after the last refusal.
	refusalShown = 10 * time.Minute
	// refusalRefresh is the shortest time between two updates of the status of a member's
	// ClusterAdvertisement while refusals are repeated.
	refusalRefresh = time.Minute
)

// account is how much of the broker one member uses.
type account struct {
	// journal limits the bytes that the member adds to the journal, see Budget.JournalPerHour. They are known only
	// afterwards, so its tokens may be negative.
	journal *rate.Limiter
	// reservations is the sum of weightOf of the member's reservations in the book.
	reservations int
	// closedKeys are the member's closed keys, the oldest first.
	closedKeys []closedKey
	// refusals has the last refused call for each limit of the budget, by the name of the limit.
	refusals map[string]refusal
	shown    time.Time
}

type closedKey struct {
	key string
	at  time.Time
}

// refusal is a call of a member that was refused because of its budget.
type refusal struct {
	// Detail is the message to the member.
	Detail string
	At     time.Time
}

// Session is what budgets need of the broker's session.
type Session interface {
	term.Term
	// Budget is the budget of every member.
	Budget() *Budget
	// QueueLength returns how many requests wait, and how many may.
	QueueLength() (waiting, most int)
	// TakingPart iterates over the reservations in which a cluster takes part, in the order of their
	// last changes.
	TakingPart(clusterID string) iter.Seq[*ledger.Reservation]
}

// Limiter tracks how much of the broker each member uses, and refuses calls that exceed its budget
// with fault.TooManyRequests.
type Limiter struct {
	s        Session
	byMember map[string]*account
	// payer is the member whose call is in progress and to which records are charged, "" for none.
	payer string
}

// New returns a Limiter without any use.
func New(s Session) *Limiter { return &Limiter{s: s, byMember: map[string]*account{}} }

// Charge charges records to a member until the returned function is called.
func (l *Limiter) Charge(member string) (stop func()) {
	l.payer = member
	return func() { l.payer = "" }
}

func (l *Limiter) accountOf(member string) *account {
	a := l.byMember[member]
	if a == nil {
		a = &account{}
		l.byMember[member] = a
	}
	if most := int(l.s.Budget().JournalPerHour); a.journal == nil || a.journal.Burst() != most {
		a.journal = rate.NewLimiter(rate.Limit(most)/3600, most)
	}
	return a
}

// PauseCharging stops charging records to any member until the returned function is called.
func (l *Limiter) PauseCharging() (resume func()) {
	payer := l.payer
	l.payer = ""
	return func() { l.payer = payer }
}

// CheckJournal returns an error if the member has used up its share of the journal.
func (l *Limiter) CheckJournal(member string) error {
	journal := l.accountOf(member).journal
	left := journal.TokensAt(l.s.Now())
	if left > 0 {
		return nil
	}
	wait := time.Duration((1 - left) / float64(journal.Limit()) * float64(time.Second))
	return fault.Over("journal", wait, "member %q has written %.0f of %d bytes to the journal, the most within an hour: ask again in %s; BrokerConfig.spec.memberBudget.journalPerHour sets it",
		member, float64(journal.Burst())-left, journal.Burst(), wait.Round(time.Second))
}

func (l *Limiter) chargeRecord(e term.Event) {
	member := l.payer
	if offer, ok := e.Change.(*ledger.Offer); ok && offer.Agent {
		member = offer.ClusterID // an offer may be recorded during another member's call
	}
	if _, ok := e.Change.(*ledger.Idle); ok {
		member = e.Changed.Requester // recorded when it is due, in nobody's call
	}
	if member == "" {
		return
	}
	l.accountOf(member).journal.ReserveN(l.s.Now(), e.Size+recordOverhead)
}

// CountFromBook fills the accounts from the book.
func (l *Limiter) CountFromBook() {
	l.s.Book().Reservations(func(r *ledger.Reservation) { l.accountOf(r.Requester).reservations += weightOf(r) })
	l.s.Book().ClosedKeys(func(k ledger.CloseKey, at time.Time) {
		a := l.accountOf(k.Requester)
		a.closedKeys = append(a.closedKeys, closedKey{k.Key, at})
	})
	for id, a := range l.byMember {
		slices.SortFunc(a.closedKeys, func(x, y closedKey) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.key, y.key)) })
		l.setKeyDeadline(id)
	}
}

// weightOf returns as how many reservations a reservation counts.
func weightOf(r *ledger.Reservation) int {
	if r.Requirements == nil {
		return 1
	}
	text, err := json.Marshal(r.Requirements)
	if err != nil {
		panic(err) // cannot happen: the requirements were decoded from JSON
	}
	return 1 + len(text)/plainBytes
}

// Observe implements term.Observer.
func (l *Limiter) Observe(e term.Event) {
	l.chargeRecord(e)
	switch change := e.Change.(type) {
	case *ledger.Forget:
		for _, r := range e.Forgotten {
			l.accountOf(r.Requester).reservations -= weightOf(r)
		}
		for _, k := range change.Keys {
			a := l.accountOf(k.Requester)
			a.closedKeys = slices.DeleteFunc(a.closedKeys, func(s closedKey) bool { return s.key == k.Key })
		}
	case *ledger.CloseKey:
		a := l.accountOf(change.Requester)
		a.closedKeys = append(a.closedKeys, closedKey{change.Key, e.At})
		l.setKeyDeadline(change.Requester)
	}
	if e.IsNew {
		l.accountOf(e.Changed.Requester).reservations += weightOf(e.Changed)
	}
}

// MakeRoom makes room in the book for one more reservation of a requester.
func (l *Limiter) MakeRoom(q *requests.Request) error {
	if q.Object != nil {
		return nil // requests in Reservation objects are limited by the RBAC of the broker cluster instead
	}
	return l.ensureRoom(q.Requester)
}

// ensureRoom makes room in the book for one more reservation or closed key of a requester. If the requester's budget is
// used up, it forgets the oldest ended reservations and closed keys. If that is not enough, it returns an error.
func (l *Limiter) ensureRoom(requester string) error {
	a := l.accountOf(requester)
	if l.hasRoom(a) {
		return nil
	}
	if err := l.forgetOldest(requester); err != nil || l.hasRoom(a) {
		return err
	}
	return fault.Over("reservations", time.Minute, "member %q holds %d of %d reservations, where long requirements count several times: release some; BrokerConfig.spec.memberBudget.reservations sets it",
		requester, a.reservations+len(a.closedKeys), l.s.Budget().Reservations)
}

func (l *Limiter) hasRoom(a *account) bool {
	return a.reservations+len(a.closedKeys) < l.s.Budget().Reservations
}

// forgetOldest forgets the oldest ended reservations and closed keys of a requester, up to forgetAtOnce of each, before
// their usual time (term.Retain) is over.
func (l *Limiter) forgetOldest(requester string) error {
	forget := &ledger.Forget{Keys: l.oldestKeys(requester, func(closedKey) bool { return true })}
	for r := range l.s.TakingPart(requester) {
		if len(forget.Names) == forgetAtOnce {
			break
		}
		if r.Requester == requester && r.Over() {
			forget.Names = append(forget.Names, r.Name)
		}
	}
	if len(forget.Names)+len(forget.Keys) == 0 {
		return nil
	}
	return l.s.Record(ledger.Event{Change: forget})
}

// CloseKey closes a key that names no reservation, so that a request with it is refused.
func (l *Limiter) CloseKey(requester, key string, by ledger.Actor) error {
	if err := l.ensureRoom(requester); err != nil {
		return err
	}
	return l.s.Record(ledger.Event{By: by, Change: &ledger.CloseKey{Requester: requester, Key: key}})
}

// oldestKeys returns the closed keys of a requester, the oldest first, up to the first one for
// which old returns false. It returns at most forgetAtOnce keys.
func (l *Limiter) oldestKeys(requester string, old func(closedKey) bool) []ledger.CloseKey {
	var out []ledger.CloseKey
	for _, k := range l.accountOf(requester).closedKeys {
		if len(out) == forgetAtOnce || !old(k) {
			break
		}
		out = append(out, ledger.CloseKey{Requester: requester, Key: k.key})
	}
	return out
}

// setKeyDeadline schedules ExpireKeys for when the requester's oldest closed key expires, which is 24 hours (the
// constant term.Retain) after it was closed.
func (l *Limiter) setKeyDeadline(requester string) {
	if keys := l.accountOf(requester).closedKeys; len(keys) > 0 {
		l.s.SetDeadline(KeysDue+requester, keys[0].at.Add(term.Retain))
	}
}

// ExpireKeys forgets the closed keys of a requester that have expired.
func (l *Limiter) ExpireKeys(requester string) {
	old := l.oldestKeys(requester, func(k closedKey) bool { return !k.at.Add(term.Retain).After(l.s.Now()) })
	if len(old) > 0 {
		if err := l.s.Record(ledger.Event{Change: &ledger.Forget{Keys: old}}); err != nil {
			l.s.Log().Error(err, "forgetting closed keys failed, retrying", "cluster", requester)
			l.s.SetDeadline(KeysDue+requester, l.s.Now().Add(term.RetryDelay))
			return
		}
	}
	l.setKeyDeadline(requester)
}

// CheckWaiting returns an error if the member already uses up its share of the queue. It does not limit
// requests in Reservation objects.
func (l *Limiter) CheckWaiting(q *requests.Request) error {
	if q.Object != nil {
		return nil
	}
	length, longest := l.s.QueueLength()
	most := cmp.Or(l.s.Budget().Waiting, max(longest/4, leastWaiting))
	if length < most {
		return nil // the whole queue is shorter than the share of one member
	}
	n := 0
	for r := range l.s.TakingPart(q.Requester) {
		if r.Requester == q.Requester && r.Waiting != nil {
			n++
		}
	}
	if n < most {
		return nil
	}
	return fault.Over("waiting", term.QueueFullRetry, "member %q has %d of %d requests waiting for capacity: withdraw some, or ask later; BrokerConfig.spec.memberBudget.waiting sets it",
		q.Requester, n, most)
}

// NoteRefusal stores that a call of a member was refused because of its budget. figure names the limit,
// detail is the message to the member.
func (l *Limiter) NoteRefusal(member, figure, detail string) {
	if l.s.Book().Cluster(member) == nil {
		return
	}
	a, now := l.accountOf(member), l.s.Now()
	if a.refusals == nil {
		a.refusals = map[string]refusal{}
	}
	_, known := a.refusals[figure]
	a.refusals[figure] = refusal{Detail: detail, At: now}
	if !known || now.Sub(a.shown) >= refusalRefresh {
		a.shown = now
		l.s.PublishCluster(member)
	}
	l.s.SetDeadline(RefusalsDue+member, now.Add(refusalShown))
}

// ExpireRefusals drops the refusals that have been shown for refusalShown.
func (l *Limiter) ExpireRefusals(member string) {
	a := l.accountOf(member)
	maps.DeleteFunc(a.refusals, func(_ string, r refusal) bool { return l.s.Now().Sub(r.At) >= refusalShown })
	if l.s.Book().Cluster(member) != nil {
		l.s.PublishCluster(member)
	}
	if len(a.refusals) > 0 {
		l.s.SetDeadline(RefusalsDue+member, l.s.Now().Add(refusalShown))
	}
}

// OverBudget returns a text for each limit of the budget that the member has recently exceeded.
func (l *Limiter) OverBudget(clusterID string) []string {
	var out []string
	a := l.accountOf(clusterID)
	for _, figure := range slices.Sorted(maps.Keys(a.refusals)) {
		out = append(out, a.refusals[figure].Detail)
	}
	return out
}

// Each calls check for each member, with how many bytes of Budget.JournalPerHour it has used up and how
// many reservations and closed keys it has in the book.
func (l *Limiter) Each(check func(member string, written float64, entries int)) {
	for id, a := range l.byMember {
		check(id, float64(a.journal.Burst())-a.journal.TokensAt(l.s.Now()), a.reservations+len(a.closedKeys))
	}
}
