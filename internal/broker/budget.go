package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Budget limits what one member may use of the broker. docs/budgets.md lists all figures,
// including those of the REST server.
type Budget struct {
	// Reservations bounds the reservations and closed keys of one requester in the book, ended
	// ones included. Above it, the broker forgets those that ended first, before their day is
	// over.
	Reservations int
	// Waiting bounds the waiting requests of one requester; 0 is a quarter of the queue.
	Waiting int
	// JournalPerHour bounds the bytes that the calls of one member may add to the journal: this
	// many at once, and again in every hour.
	JournalPerHour int64
	// ResourceNames bounds the resources a cluster may name in addition to cpu, memory and
	// pods.
	ResourceNames int
}

// DefaultBudget returns a budget far above what an honest member needs: ten thousand
// simultaneous reservations take about 20 MiB of journal.
func DefaultBudget() Budget {
	return Budget{Reservations: 10_000, JournalPerHour: 32 << 20, ResourceNames: decision.DefaultResourceNames}
}

const (
	// bookBytes is the average size in the book that is allowed for each of a requester's
	// reservations.
	bookBytes = 2 << 10
	// plainReservation is the approximate size of a reservation without requirements.
	plainReservation = 1 << 10
	// recordOverhead is the cost of a record in addition to its content: its links in the
	// chain, and the work of writing it.
	recordOverhead = 256
	// A second, smaller bucket keeps one member from delaying the records of others. A member
	// may write 1/16 of its hourly bytes at once, and then 1/256 in every second. That is twice
	// what a member needs if it calls as often as the rate limits allow.
	burstShare = 16
	paceShare  = 256
	// leastWaiting is the number of requests that one member may have waiting in the smallest
	// queue.
	leastWaiting = 16
	// forgetAtOnce bounds the reservations or keys that one event forgets.
	forgetAtOnce = 200
	// keysDue prefixes the deadlines at which the oldest closed keys of a requester are forgotten.
	keysDue = "keys/"
	// budgetDue prefixes the deadlines at which refusals to a member are no longer shown.
	budgetDue = "budget/"
	// refusalShown is how long after the last refusal a member is shown as over its budget.
	refusalShown = 10 * time.Minute
	// refusalRefresh is how often a repeated refusal is written to the status.
	refusalRefresh = time.Minute
)

// account is one member's use of the broker.
type account struct {
	// written is the level of the hourly bucket at the time at.
	written float64
	// paced is the level of the bucket that limits bursts, at the same time.
	paced float64
	at    time.Time
	// reservations counts this requester's reservations in the book, bytes is their size.
	reservations int
	bytes        int64
	// closedKeys holds the requester's closed keys, oldest first.
	closedKeys []closedKey
	// refusals holds the last refusal of each figure.
	refusals map[string]Refusal
	shown    time.Time
}

type closedKey struct {
	key string
	at  time.Time
}

// Refusal is a call that a budget refused to a member.
type Refusal struct {
	// Figure is the figure of the budget, Detail the message to the member.
	Figure, Detail string
	At             time.Time
}

// accounts tracks each member's use of the broker, and refuses calls that exceed its budget.
type accounts struct {
	s        *session
	byMember map[string]*account
	// payer is the member whose call is in progress, "" for none.
	payer string
}

func newAccounts(s *session) accounts { return accounts{s: s, byMember: map[string]*account{}} }

func (as *accounts) accountOf(member string) *account {
	a := as.byMember[member]
	if a == nil {
		a = &account{at: as.s.now()}
		as.byMember[member] = a
	}
	return a
}

// pauseCharging stops charging records to any member until the returned function is called.
func (as *accounts) pauseCharging() (resume func()) {
	payer := as.payer
	as.payer = ""
	return func() { as.payer = payer }
}

// drainBuckets lowers the buckets by the time that has passed.
func (a *account) drainBuckets(now time.Time, perHour int64) {
	passed := now.Sub(a.at)
	a.written = max(a.written-passed.Hours()*float64(perHour), 0)
	a.paced = max(a.paced-passed.Seconds()*float64(perHour)/paceShare, 0)
	a.at = now
}

func errOver(figure string, after time.Duration, format string, args ...any) *fault.Error {
	e := fault.New(fault.TooManyRequests, format, args...)
	e.Figure, e.RetryAfter = figure, max(after, time.Second)
	return e
}

// commitPlanFor calls commitPlan on behalf of a member and charges the written records to its account.
func (b *Broker) commitPlanFor(ctx context.Context, member string, plan func(*session) error) error {
	return b.commitPlan(ctx, func(s *session) error {
		if err := s.accounts.checkJournal(member); err != nil {
			return err
		}
		s.accounts.payer = member
		defer func() { s.accounts.payer = "" }()
		err := plan(s)
		return errTooLarge(member, err)
	})
}

// errTooLarge tells the caller how to shrink an event that fits no record.
func errTooLarge(member string, err error) error {
	if large, ok := err.(*tooLarge); ok { //nolint:errorlint // record returns it bare
		return fault.New(fault.TooLarge, "the request of %q cannot be recorded: %v; ask for less", member, large)
	}
	return err
}

// checkJournal refuses a call of a member that has used up its share of the journal.
func (as *accounts) checkJournal(member string) error {
	most := as.s.config().Budget.JournalPerHour
	a := as.accountOf(member)
	a.drainBuckets(as.s.now(), most)
	if over := a.written - float64(most); over >= 0 {
		wait := time.Duration((over/float64(most) + 1.0/3600) * float64(time.Hour))
		return errOver("journal", wait, "member %q has written %.0f of %d bytes to the journal, the most within an hour: ask again in %s; BrokerConfig.spec.memberBudget.journalPerHour sets it",
			member, a.written, most, wait.Round(time.Second))
	}
	if over := a.paced - float64(most)/burstShare; over >= 0 {
		return errOver("journal", time.Duration(over*paceShare/float64(most)*float64(time.Second)), "member %q writes more than %d bytes a second to the journal: ask less often",
			member, most/paceShare)
	}
	return nil
}

// chargeRecord charges a record to the member that caused it.
func (as *accounts) chargeRecord(e event) {
	member := as.payer
	if offer, ok := e.Change.(*ledger.Offer); ok && offer.Agent {
		member = offer.ClusterID // it may be recorded during a call of another member
	}
	if member == "" {
		return
	}
	a := as.accountOf(member)
	a.drainBuckets(as.s.now(), as.s.config().Budget.JournalPerHour)
	a.written += float64(e.size + recordOverhead)
	a.paced += float64(e.size + recordOverhead)
}

// countBook derives the accounts from the book.
func (as *accounts) countBook() {
	as.s.book.Reservations(func(r *ledger.Reservation) { as.accountOf(r.Requester).addReservation(r, 1) })
	as.s.book.ShutKeys(func(k ledger.Shut, at time.Time) {
		a := as.accountOf(k.Requester)
		a.closedKeys = append(a.closedKeys, closedKey{k.Key, at})
	})
	for id, a := range as.byMember {
		slices.SortFunc(a.closedKeys, func(x, y closedKey) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.key, y.key)) })
		as.setKeyDeadline(id)
	}
}

func (a *account) addReservation(r *ledger.Reservation, sign int) {
	a.reservations += sign
	a.bytes += int64(sign) * weightOf(r)
}

func weightOf(r *ledger.Reservation) int64 {
	if r.Requirements == nil {
		return plainReservation
	}
	text, err := json.Marshal(r.Requirements)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return plainReservation + int64(len(text))
}

// observe keeps the accounts consistent with the book.
func (as *accounts) observe(e event) {
	as.chargeRecord(e)
	switch change := e.Change.(type) {
	case *ledger.Forget:
		for _, r := range e.forgotten {
			as.accountOf(r.Requester).addReservation(r, -1)
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
	if e.isNew {
		as.accountOf(e.changed.Requester).addReservation(e.changed, 1)
	}
}

// makeRoom makes room in the book for one more reservation of a requester. It forgets the
// requester's oldest ended reservations, and refuses if there is none.
func (as *accounts) makeRoom(q *Request) error {
	if q.Object != nil {
		return nil // creating the object needs rights in the broker cluster
	}
	most, a := as.s.config().Budget.Reservations, as.accountOf(q.Requester)
	if as.hasRoom(a) {
		return nil
	}
	if err := as.forgetOldest(q.Requester); err != nil || as.hasRoom(a) {
		return err
	}
	return errOver("reservations", time.Minute, "member %q holds %d of %d reservations, and %d of %d bytes of the book: release some; BrokerConfig.spec.memberBudget.reservations sets it",
		q.Requester, a.reservations+len(a.closedKeys), most, a.bytes, int64(most)*bookBytes)
}

// hasRoom reports whether a requester may have another reservation or closed key in the book.
func (as *accounts) hasRoom(a *account) bool {
	most := as.s.config().Budget.Reservations
	return a.reservations+len(a.closedKeys) < most && a.bytes < int64(most)*bookBytes
}

// forgetOldest forgets ended reservations and closed keys before their day is over.
func (as *accounts) forgetOldest(requester string) error {
	forget := &ledger.Forget{Keys: as.oldestKeys(requester, func(closedKey) bool { return true })}
	for r := range as.s.news.logOf(requester).allReservations(as.s.book) {
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
	return as.s.record(ledger.Event{Change: forget})
}

// closeKey makes a key unusable that never named a reservation.
func (as *accounts) closeKey(requester, key string) error {
	if a := as.accountOf(requester); !as.hasRoom(a) {
		if err := as.forgetOldest(requester); err != nil {
			return err
		}
		if !as.hasRoom(a) {
			return errOver("reservations", time.Minute, "member %q holds %d of %d reservations and closed keys: release some",
				requester, a.reservations+len(a.closedKeys), as.s.config().Budget.Reservations)
		}
	}
	return faultOf(as.s.record(ledger.Event{Change: &ledger.Shut{Requester: requester, Key: key}}))
}

// oldestKeys returns the oldest closed keys of a requester, as long as old accepts them and one
// event can forget them.
func (as *accounts) oldestKeys(requester string, old func(closedKey) bool) []ledger.Shut {
	var out []ledger.Shut
	for _, k := range as.accountOf(requester).closedKeys {
		if len(out) == forgetAtOnce || !old(k) {
			break
		}
		out = append(out, ledger.Shut{Requester: requester, Key: k.key})
	}
	return out
}

// setKeyDeadline schedules expireKeys for one day after the oldest key was closed.
func (as *accounts) setKeyDeadline(requester string) {
	if shut := as.accountOf(requester).closedKeys; len(shut) > 0 {
		as.s.deadlines.setDeadline(keysDue+requester, shut[0].at.Add(retain))
	}
}

func (as *accounts) expireKeys(requester string) {
	old := as.oldestKeys(requester, func(k closedKey) bool { return !k.at.Add(retain).After(as.s.now()) })
	if len(old) > 0 {
		if err := as.s.record(ledger.Event{Change: &ledger.Forget{Keys: old}}); err != nil {
			as.s.log.Error(err, "forgetting closed keys failed, retrying", "cluster", requester)
			as.s.deadlines.setDeadline(keysDue+requester, as.s.now().Add(reopenDelay))
			return
		}
	}
	as.setKeyDeadline(requester)
}

// checkWaiting refuses to queue a request of a member that uses up its share of the queue.
func (as *accounts) checkWaiting(q *Request) error {
	if q.Object != nil {
		return nil
	}
	most := cmp.Or(as.s.config().Budget.Waiting, max(as.s.config().Queue.MaxLength/4, leastWaiting))
	if as.s.queue.line.Len() < most {
		return nil // the queue as a whole is shorter than the share of one member
	}
	n := 0
	for r := range as.s.news.logOf(q.Requester).allReservations(as.s.book) {
		if r.Requester == q.Requester && r.Waiting != nil {
			n++
		}
	}
	if n < most {
		return nil
	}
	return errOver("waiting", queueFullRetry, "member %q has %d of %d requests waiting for capacity: withdraw some, or ask later; BrokerConfig.spec.memberBudget.waiting sets it",
		q.Requester, n, most)
}

// NoteRefusal notes that a budget stopped a member, so that its ClusterAdvertisement shows it.
func (b *Broker) NoteRefusal(member, figure, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session != nil {
		b.session.accounts.noteRefusal(member, figure, detail)
	}
}

func (as *accounts) noteRefusal(member, figure, detail string) {
	if as.s.book.Cluster(member) == nil {
		return
	}
	a, now := as.accountOf(member), as.s.now()
	if a.refusals == nil {
		a.refusals = map[string]Refusal{}
	}
	_, known := a.refusals[figure]
	a.refusals[figure] = Refusal{Figure: figure, Detail: detail, At: now}
	if !known || now.Sub(a.shown) >= refusalRefresh {
		a.shown = now
		as.s.b.feed.addCluster(member)
	}
	as.s.deadlines.setDeadline(budgetDue+member, now.Add(refusalShown))
}

// expireRefusals drops refusals that are no longer shown.
func (as *accounts) expireRefusals(member string) {
	a := as.accountOf(member)
	maps.DeleteFunc(a.refusals, func(_ string, r Refusal) bool { return as.s.now().Sub(r.At) >= refusalShown })
	if as.s.book.Cluster(member) != nil {
		as.s.b.feed.addCluster(member)
	}
	if len(a.refusals) > 0 {
		as.s.deadlines.setDeadline(budgetDue+member, as.s.now().Add(refusalShown))
	}
}

// overBudget describes each figure in which a member is over its budget, nil for none.
func (as *accounts) overBudget(clusterID string) []string {
	var out []string
	a := as.accountOf(clusterID)
	for _, figure := range slices.Sorted(maps.Keys(a.refusals)) {
		out = append(out, a.refusals[figure].Detail)
	}
	if left := as.s.clusters.ignoredResources(clusterID); len(left) > 0 {
		out = append(out, fmt.Sprintf("resources ignored in decisions: %s; a cluster may advertise %d besides cpu, memory and pods, all clusters together %d",
			strings.Join(left, ", "), as.s.config().Budget.ResourceNames, decision.MaxResources))
	}
	return out
}
