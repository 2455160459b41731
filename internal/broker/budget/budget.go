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
	// Figure names the limit of the budget, Detail is the message to the member.
	Figure, Detail string
	At             time.Time
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

// Accounts tracks how much of the broker each member uses, and refuses calls that exceed its budget
// with fault.TooManyRequests.
type Accounts struct {
	s        Session
	byMember map[string]*account
	// payer is the member whose call is in progress and to which records are charged, "" for none.
	payer string
}

// New returns Accounts without any use.
func New(s Session) *Accounts { return &Accounts{s: s, byMember: map[string]*account{}} }

// Charge charges records to a member until the returned function is called.
func (as *Accounts) Charge(member string) (stop func()) {
	as.payer = member
	return func() { as.payer = "" }
}

func (as *Accounts) accountOf(member string) *account {
	a := as.byMember[member]
	if a == nil {
		a = &account{}
		as.byMember[member] = a
	}
	if most := int(as.s.Budget().JournalPerHour); a.journal == nil || a.journal.Burst() != most {
		a.journal = rate.NewLimiter(rate.Limit(most)/3600, most)
	}
	return a
}

// PauseCharging stops charging records to any member until the returned function is called.
func (as *Accounts) PauseCharging() (resume func()) {
	payer := as.payer
	as.payer = ""
	return func() { as.payer = payer }
}

// CheckJournal returns an error if the member has used up its share of the journal.
func (as *Accounts) CheckJournal(member string) error {
	journal := as.accountOf(member).journal
	left := journal.TokensAt(as.s.Now())
	if left > 0 {
		return nil
	}
	wait := time.Duration((1 - left) / float64(journal.Limit()) * float64(time.Second))
	return fault.Over("journal", wait, "member %q has written %.0f of %d bytes to the journal, the most within an hour: ask again in %s; BrokerConfig.spec.memberBudget.journalPerHour sets it",
		member, float64(journal.Burst())-left, journal.Burst(), wait.Round(time.Second))
}

// chargeRecord charges the record of an event to the member that caused it.
func (as *Accounts) chargeRecord(e term.Event) {
	member := as.payer
	if offer, ok := e.Change.(*ledger.Offer); ok && offer.Agent {
		member = offer.ClusterID // an offer may be recorded during another member's call
	}
	if _, ok := e.Change.(*ledger.Idle); ok {
		member = e.Changed.Requester // recorded when it is due, in nobody's call
	}
	if member == "" {
		return
	}
	as.accountOf(member).journal.ReserveN(as.s.Now(), e.Size+recordOverhead)
}

// CountBook fills the accounts from the book.
func (as *Accounts) CountBook() {
	as.s.Book().Reservations(func(r *ledger.Reservation) { as.accountOf(r.Requester).reservations += weightOf(r) })
	as.s.Book().ShutKeys(func(k ledger.Shut, at time.Time) {
		a := as.accountOf(k.Requester)
		a.closedKeys = append(a.closedKeys, closedKey{k.Key, at})
	})
	for id, a := range as.byMember {
		slices.SortFunc(a.closedKeys, func(x, y closedKey) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.key, y.key)) })
		as.setKeyDeadline(id)
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
func (as *Accounts) Observe(e term.Event) {
	as.chargeRecord(e)
	switch change := e.Change.(type) {
	case *ledger.Forget:
		for _, r := range e.Forgotten {
			as.accountOf(r.Requester).reservations -= weightOf(r)
		}
		for _, k := range change.Keys {
			a := as.accountOf(k.Requester)
			a.closedKeys = slices.DeleteFunc(a.closedKeys, func(s closedKey) bool { return s.key == k.Key })
		}
	case *ledger.Shut:
		a := as.accountOf(change.Requester)
		a.closedKeys = append(a.closedKeys, closedKey{change.Key, e.At})
		as.setKeyDeadline(change.Requester)
	}
	if e.IsNew {
		as.accountOf(e.Changed.Requester).reservations += weightOf(e.Changed)
	}
}

// MakeRoom makes room in the book for one more reservation of a requester. If the requester's budget is used up, it
// forgets the oldest ended reservations. If that is not enough, it returns an error.
func (as *Accounts) MakeRoom(q *requests.Request) error {
	if q.Object != nil {
		return nil // requests in Reservation objects are limited by the RBAC of the broker cluster instead
	}
	a := as.accountOf(q.Requester)
	if as.hasRoom(a) {
		return nil
	}
	if err := as.forgetOldest(q.Requester); err != nil || as.hasRoom(a) {
		return err
	}
	return fault.Over("reservations", time.Minute, "member %q holds %d of %d reservations, where long requirements count several times: release some; BrokerConfig.spec.memberBudget.reservations sets it",
		q.Requester, a.reservations+len(a.closedKeys), as.s.Budget().Reservations)
}

// hasRoom reports whether a requester may have another reservation or closed key in the book.
func (as *Accounts) hasRoom(a *account) bool {
	return a.reservations+len(a.closedKeys) < as.s.Budget().Reservations
}

// forgetOldest forgets the oldest ended reservations and closed keys of a requester, up to forgetAtOnce of each, before
// their usual time (term.Retain) is over.
func (as *Accounts) forgetOldest(requester string) error {
	forget := &ledger.Forget{Keys: as.oldestKeys(requester, func(closedKey) bool { return true })}
	for r := range as.s.TakingPart(requester) {
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
	return as.s.Record(ledger.Event{Change: forget})
}

// CloseKey closes a key that names no reservation, so that a request with it is refused.
func (as *Accounts) CloseKey(requester, key string, by ledger.Actor) error {
	if a := as.accountOf(requester); !as.hasRoom(a) {
		if err := as.forgetOldest(requester); err != nil {
			return err
		}
		if !as.hasRoom(a) {
			return fault.Over("reservations", time.Minute, "member %q holds %d of %d reservations and closed keys: release some",
				requester, a.reservations+len(a.closedKeys), as.s.Budget().Reservations)
		}
	}
	return as.s.Record(ledger.Event{By: by, Change: &ledger.Shut{Requester: requester, Key: key}})
}

// oldestKeys returns the closed keys of a requester, the oldest first, up to the first one for
// which old returns false. It returns at most forgetAtOnce keys.
func (as *Accounts) oldestKeys(requester string, old func(closedKey) bool) []ledger.Shut {
	var out []ledger.Shut
	for _, k := range as.accountOf(requester).closedKeys {
		if len(out) == forgetAtOnce || !old(k) {
			break
		}
		out = append(out, ledger.Shut{Requester: requester, Key: k.key})
	}
	return out
}

// setKeyDeadline schedules ExpireKeys for when the requester's oldest closed key expires, which is 24 hours (the
// constant term.Retain) after it was closed.
func (as *Accounts) setKeyDeadline(requester string) {
	if shut := as.accountOf(requester).closedKeys; len(shut) > 0 {
		as.s.SetDeadline(KeysDue+requester, shut[0].at.Add(term.Retain))
	}
}

// ExpireKeys forgets the closed keys of a requester that have expired.
func (as *Accounts) ExpireKeys(requester string) {
	old := as.oldestKeys(requester, func(k closedKey) bool { return !k.at.Add(term.Retain).After(as.s.Now()) })
	if len(old) > 0 {
		if err := as.s.Record(ledger.Event{Change: &ledger.Forget{Keys: old}}); err != nil {
			as.s.Log().Error(err, "forgetting closed keys failed, retrying", "cluster", requester)
			as.s.SetDeadline(KeysDue+requester, as.s.Now().Add(term.RetryDelay))
			return
		}
	}
	as.setKeyDeadline(requester)
}

// CheckWaiting returns an error if the member already uses up its share of the queue. It does not limit
// requests in Reservation objects.
func (as *Accounts) CheckWaiting(q *requests.Request) error {
	if q.Object != nil {
		return nil
	}
	length, longest := as.s.QueueLength()
	most := cmp.Or(as.s.Budget().Waiting, max(longest/4, leastWaiting))
	if length < most {
		return nil // the whole queue is shorter than the share of one member
	}
	n := 0
	for r := range as.s.TakingPart(q.Requester) {
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
func (as *Accounts) NoteRefusal(member, figure, detail string) {
	if as.s.Book().Cluster(member) == nil {
		return
	}
	a, now := as.accountOf(member), as.s.Now()
	if a.refusals == nil {
		a.refusals = map[string]refusal{}
	}
	_, known := a.refusals[figure]
	a.refusals[figure] = refusal{Figure: figure, Detail: detail, At: now}
	if !known || now.Sub(a.shown) >= refusalRefresh {
		a.shown = now
		as.s.PublishCluster(member)
	}
	as.s.SetDeadline(RefusalsDue+member, now.Add(refusalShown))
}

// ExpireRefusals drops the refusals that have been shown for refusalShown.
func (as *Accounts) ExpireRefusals(member string) {
	a := as.accountOf(member)
	maps.DeleteFunc(a.refusals, func(_ string, r refusal) bool { return as.s.Now().Sub(r.At) >= refusalShown })
	if as.s.Book().Cluster(member) != nil {
		as.s.PublishCluster(member)
	}
	if len(a.refusals) > 0 {
		as.s.SetDeadline(RefusalsDue+member, as.s.Now().Add(refusalShown))
	}
}

// OverBudget returns a text for each limit of the budget that the member has recently exceeded.
func (as *Accounts) OverBudget(clusterID string) []string {
	var out []string
	a := as.accountOf(clusterID)
	for _, figure := range slices.Sorted(maps.Keys(a.refusals)) {
		out = append(out, a.refusals[figure].Detail)
	}
	return out
}

// Each calls check for each member, with how many bytes of Budget.JournalPerHour it has used up and how
// many reservations and closed keys it has in the book.
func (as *Accounts) Each(check func(member string, written float64, entries int)) {
	for id, a := range as.byMember {
		check(id, float64(a.journal.Burst())-a.journal.TokensAt(as.s.Now()), a.reservations+len(a.closedKeys))
	}
}
