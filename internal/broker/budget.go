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

// Budget is what one member may use of the broker. docs/budgets.md lists all of its figures,
// those of the REST server too.
type Budget struct {
	// Reservations is how many reservations and shut keys of one requester the book holds,
	// ended ones included. Where there are more, those that ended first are forgotten before
	// their day is over.
	Reservations int
	// Waiting is how many requests of one requester may wait; 0 is a quarter of the queue.
	Waiting int
	// JournalPerHour is how many bytes calls of one member may add to the journal: so many at
	// once, and so many in every hour.
	JournalPerHour int64
	// ResourceNames is how many resources a cluster may name beside cpu, memory and pods.
	ResourceNames int
}

// DefaultBudget is far above what an honest member needs: ten thousand reservations at once
// take about 20 MiB of journal.
func DefaultBudget() Budget {
	return Budget{Reservations: 10_000, JournalPerHour: 32 << 20, ResourceNames: decision.DefaultResourceNames}
}

const (
	// bookBytes is how much a requester's reservations may take in the book for each that
	// Budget.Reservations admits, on average.
	bookBytes = 2 << 10
	// plainReservation is about what a reservation takes without terms.
	plainReservation = 1 << 10
	// recordOverhead is what a record takes beside its content: its place in the chain, and
	// the work of writing it.
	recordOverhead = 256
	// Of what a member may write in an hour it may write a sixteenth at once, and then the
	// 256th part in a second, twice what it takes to ask as often as the limits allow: others
	// wait for what is before them in the journal.
	burstShare = 16
	paceShare  = 256
	// leastWaiting is how many requests of a member may wait in the smallest queue.
	leastWaiting = 16
	// forgetAtOnce is how many reservations or keys one event forgets.
	forgetAtOnce = 200
	// keysDue marks an entry of deadlines that speaks of a requester's shut keys.
	keysDue = "keys/"
	// budgetDue marks one that speaks of what a budget refused to a member.
	budgetDue = "budget/"
	// refusalShown is how long after the last refusal a member is shown to be over its budget.
	refusalShown = 10 * time.Minute
	// refusalRefresh is how often what is shown of it is written again.
	refusalRefresh = time.Minute
)

// account is what a member uses.
type account struct {
	// written is how much of the journal's bucket is used up, as of at.
	written float64
	// paced is the same of the bucket that keeps one member from writing all at once.
	paced float64
	at    time.Time
	// reservations of this requester are in the book, and take so many bytes.
	reservations int
	bytes        int64
	// shut are its shut keys, oldest first.
	shut []shutKey
	// refusals are the last ones, by figure.
	refusals map[string]Refusal
	shown    time.Time
}

type shutKey struct {
	key string
	at  time.Time
}

// Refusal is what a budget refused to a member.
type Refusal struct {
	// Figure of the budget, and what the member was told.
	Figure, Detail string
	At             time.Time
}

func (t *term) accountOf(member string) *account {
	a := t.accounts[member]
	if a == nil {
		a = &account{at: t.now()}
		t.accounts[member] = a
	}
	return a
}

// drain lets the bucket run out for as long as time has passed.
func (a *account) drain(now time.Time, perHour int64) {
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

// changeOf is change for a member, whose account bears what is written.
func (b *Broker) changeOf(ctx context.Context, member string, plan func(*term) error) error {
	return b.change(ctx, func(t *term) error {
		if err := t.mayWrite(member); err != nil {
			return err
		}
		t.payer = member
		defer func() { t.payer = "" }()
		err := plan(t)
		return errTooLarge(member, err)
	})
}

// errTooLarge says of an event that fits no record what its caller can do.
func errTooLarge(member string, err error) error {
	if large, ok := err.(*tooLarge); ok { //nolint:errorlint // record returns it bare
		return fault.New(fault.TooLarge, "what %q asks for cannot be written down: %v; ask for less", member, large)
	}
	return err
}

// mayWrite refuses a call of a member that has used up its share of the journal.
func (t *term) mayWrite(member string) error {
	most := t.b.config.Budget.JournalPerHour
	a := t.accountOf(member)
	a.drain(t.now(), most)
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

// charge books a record to the member that caused it.
func (t *term) charge(e *ledger.Event, size int) {
	member := t.payer
	if offer, ok := e.Change.(*ledger.Offer); ok && offer.Agent {
		member = offer.ClusterID // it may be written down on another's behalf
	}
	if member == "" {
		return
	}
	a := t.accountOf(member)
	a.drain(t.now(), t.b.config.Budget.JournalPerHour)
	a.written += float64(size + recordOverhead)
	a.paced += float64(size + recordOverhead)
}

// countAll derives the accounts from the book.
func (t *term) countAll() {
	t.state.Reservations(func(r *ledger.Reservation) { t.accountOf(r.Requester).add(r, 1) })
	t.state.ShutKeys(func(k ledger.Shut, at time.Time) {
		a := t.accountOf(k.Requester)
		a.shut = append(a.shut, shutKey{k.Key, at})
	})
	for id, a := range t.accounts {
		slices.SortFunc(a.shut, func(x, y shutKey) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.key, y.key)) })
		t.awaitKeys(id)
	}
}

func (a *account) add(r *ledger.Reservation, sign int) {
	a.reservations += sign
	a.bytes += int64(sign) * weightOf(r)
}

func weightOf(r *ledger.Reservation) int64 {
	if r.Terms == nil {
		return plainReservation
	}
	text, err := json.Marshal(r.Terms)
	if err != nil {
		panic(err) // it came as JSON
	}
	return plainReservation + int64(len(text))
}

// uncount takes what an event forgets off the accounts, before the book forgets it.
func (t *term) uncount(e *ledger.Event) {
	forget, ok := e.Change.(*ledger.Forget)
	if !ok {
		return
	}
	for _, name := range forget.Names {
		if r := t.state.Reservation(name); r != nil {
			t.accountOf(r.Requester).add(r, -1)
		}
	}
	for _, k := range forget.Keys {
		a := t.accountOf(k.Requester)
		a.shut = slices.DeleteFunc(a.shut, func(s shutKey) bool { return s.key == k.Key })
	}
}

// count adds what an event has brought into the book.
func (t *term) count(e *ledger.Event, fresh bool) {
	if shut, ok := e.Change.(*ledger.Shut); ok {
		a := t.accountOf(shut.Requester)
		a.shut = append(a.shut, shutKey{shut.Key, e.At})
		t.awaitKeys(shut.Requester)
	}
	if r := t.state.Reservation(e.Reservation()); fresh && r != nil {
		t.accountOf(r.Requester).add(r, 1)
	}
}

// makeRecordRoom has the book hold one more reservation of a requester. It forgets the
// oldest of those that are over, and refuses where none is.
func (t *term) makeRecordRoom(q *Request) error {
	if q.Object != nil {
		return nil // its maker needs rights in the broker's cluster
	}
	most, a := t.b.config.Budget.Reservations, t.accountOf(q.Requester)
	if t.fitsBook(a) {
		return nil
	}
	if err := t.forgetOldest(q.Requester); err != nil || t.fitsBook(a) {
		return err
	}
	return errOver("reservations", time.Minute, "member %q holds %d of %d reservations, and %d of %d bytes of the book: give some back; BrokerConfig.spec.memberBudget.reservations sets it",
		q.Requester, a.reservations+len(a.shut), most, a.bytes, int64(most)*bookBytes)
}

func (t *term) fitsBook(a *account) bool {
	most := t.b.config.Budget.Reservations
	return a.reservations+len(a.shut) < most && a.bytes < int64(most)*bookBytes
}

// forgetOldest forgets what is over, and shut keys, before their day is over.
func (t *term) forgetOldest(requester string) error {
	forget := &ledger.Forget{Keys: t.oldestKeys(requester, func(shutKey) bool { return true })}
	for r := range t.newsOf(requester).all(t.state) {
		if len(forget.Names) == forgetAtOnce {
			break
		}
		if r.Requester == requester && t.state.Over(r) {
			forget.Names = append(forget.Names, r.Name)
		}
	}
	if len(forget.Names)+len(forget.Keys) == 0 {
		return nil
	}
	return t.record(ledger.Event{Change: forget})
}

// shut makes a key unusable that never had a reservation.
func (t *term) shut(requester, key string) error {
	if a := t.accountOf(requester); !t.fitsBook(a) {
		if err := t.forgetOldest(requester); err != nil {
			return err
		}
		if !t.fitsBook(a) {
			return errOver("reservations", time.Minute, "member %q holds %d of %d reservations and shut keys: give some back",
				requester, a.reservations+len(a.shut), t.b.config.Budget.Reservations)
		}
	}
	return faultOf(t.record(ledger.Event{Change: &ledger.Shut{Requester: requester, Key: key}}))
}

// oldestKeys are shut keys of a requester, as many as one event forgets.
func (t *term) oldestKeys(requester string, old func(shutKey) bool) []ledger.Shut {
	var out []ledger.Shut
	for _, k := range t.accountOf(requester).shut {
		if len(out) == forgetAtOnce || !old(k) {
			break
		}
		out = append(out, ledger.Shut{Requester: requester, Key: k.key})
	}
	return out
}

// awaitKeys has the oldest shut key forgotten after its day.
func (t *term) awaitKeys(requester string) {
	if shut := t.accountOf(requester).shut; len(shut) > 0 {
		t.due.set(keysDue+requester, shut[0].at.Add(retain))
	}
}

func (t *term) expireKeys(requester string) {
	old := t.oldestKeys(requester, func(k shutKey) bool { return !k.at.Add(retain).After(t.now()) })
	if len(old) > 0 {
		if err := t.record(ledger.Event{Change: &ledger.Forget{Keys: old}}); err != nil {
			t.b.opts.Log.Error(err, "shut keys could not be forgotten; trying again", "cluster", requester)
			t.due.set(keysDue+requester, t.now().Add(reopenDelay))
			return
		}
	}
	t.awaitKeys(requester)
}

// mayWait refuses a place in the queue to a member that has its share of it.
func (t *term) mayWait(q *Request) error {
	if q.Object != nil {
		return nil
	}
	most := cmp.Or(t.b.config.Budget.Waiting, max(t.b.config.Queue.MaxLength/4, leastWaiting))
	if t.waiters.line.Len() < most {
		return nil // nobody can have more than all
	}
	n := 0
	for r := range t.newsOf(q.Requester).all(t.state) {
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

func (t *term) setBudget() {
	t.market.SetBudget(t.b.config.Budget.ResourceNames)
	t.state.Clusters(func(c *ledger.Cluster) {
		if len(t.market.LeftOut(c.ClusterID)) > 0 {
			t.list(c)
		}
	})
}

// leftOut are the resources of a cluster that decisions do not know of.
func (t *term) leftOut(clusterID string) []string {
	var out []string
	for _, name := range t.market.LeftOut(clusterID) {
		out = append(out, string(name))
	}
	return out
}

// noteLeftOut has it shown which resources are left out.
func (t *term) noteLeftOut(clusterID string) {
	if left := t.leftOut(clusterID); len(left) > 0 {
		t.b.opts.Log.Info("resources are left out of decisions: the cluster names too many, or all columns are in use", "cluster", clusterID,
			"resources", len(left), "budget", t.b.config.Budget.ResourceNames)
	}
}

// NoteRefusal takes that a budget stopped a member, so that it is shown.
func (b *Broker) NoteRefusal(member, figure, detail string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.term
	if t == nil || t.state.Cluster(member) == nil {
		return
	}
	a := t.accountOf(member)
	if a.refusals == nil {
		a.refusals = map[string]Refusal{}
	}
	_, known := a.refusals[figure]
	a.refusals[figure] = Refusal{Figure: figure, Detail: detail, At: t.now()}
	if !known || t.now().Sub(a.shown) >= refusalRefresh {
		a.shown = t.now()
		b.feed.cluster(member)
	}
	t.due.set(budgetDue+member, t.now().Add(refusalShown))
}

// expireRefusals no longer shows what is long ago.
func (t *term) expireRefusals(member string) {
	a := t.accountOf(member)
	maps.DeleteFunc(a.refusals, func(_ string, r Refusal) bool { return t.now().Sub(r.At) >= refusalShown })
	if t.state.Cluster(member) != nil {
		t.b.feed.cluster(member)
	}
	if len(a.refusals) > 0 {
		t.due.set(budgetDue+member, t.now().Add(refusalShown))
	}
}

// overBudget says where a member is over its budget, a sentence each; nil where it is not.
func (t *term) overBudget(clusterID string) []string {
	var out []string
	a := t.accountOf(clusterID)
	for _, figure := range slices.Sorted(maps.Keys(a.refusals)) {
		out = append(out, a.refusals[figure].Detail)
	}
	if left := t.leftOut(clusterID); len(left) > 0 {
		out = append(out, fmt.Sprintf("resources left out of decisions: %s; a cluster may name %d beside cpu, memory and pods, all clusters together %d",
			strings.Join(left, ", "), t.b.config.Budget.ResourceNames, decision.MaxResources))
	}
	return out
}
