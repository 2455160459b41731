package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// session is the broker's state in memory for one term, which lasts from opening the journal
// until the first failure. Broker.mu guards all of it.
type session struct {
	b       *Broker
	log     logr.Logger
	book    *ledger.State
	market  *decision.Market
	journal *journal.Journal
	// observers are notified of every event, in this order.
	observers []observer

	accounts     accounts
	changes      changes
	clusters     clusters
	deadlines    deadlines
	decider      decider
	excesses     excesses
	healing      healing
	links        links
	news         news
	objects      objects
	preemption   preemption
	queue        queueing
	quotes       quotes
	recovery     recovery
	reservations reservations

	// newest is the time of the newest event that was replayed.
	newest time.Time
	// durable is the position of an event up to which everything is known to be stored. It is
	// read without the lock.
	durable atomic.Uint64
	// last is the newest commit, nil before the first one.
	last *journal.Commit
	// began is when the term began. Agents heard of earlier count as heard at that time.
	began time.Time
}

func newSession(b *Broker, book *book, j *journal.Journal) *session {
	s := &session{
		b: b, log: b.opts.Log, book: book.state, journal: j, newest: book.newest,
		market: decision.NewMarket(), objects: objects{},
	}
	s.news = news{s: s, byCluster: map[string]*newsLog{}}
	s.decider = decider{s: s}
	s.excesses = excesses{s: s, delayed: map[string]*ledger.Exceed{}}
	s.reservations = reservations{s}
	s.accounts = newAccounts(s)
	s.deadlines = newDeadlines(s)
	s.clusters = newClusters(s)
	s.recovery = newRecovery(s)
	s.queue = newQueueing(s)
	s.preemption = newPreemption(s)
	s.healing = newHealing(s)
	s.links = newLinks(s)
	s.quotes = quotes{s: s}
	for prefix, expire := range map[string]func(string){
		holdDue: s.quotes.expire, linksDue: s.links.expire, excessDue: s.excesses.expire, keysDue: s.accounts.expireKeys, budgetDue: s.accounts.expireRefusals,
	} {
		s.deadlines.expirers[prefix] = expire
	}
	s.changes = changes{s, []reservationObserver{&s.queue, &s.preemption, s.objects, &s.deadlines, &s.news}}
	s.observers = []observer{&s.accounts, &s.healing, &s.links, &s.changes, &s.queue, &s.clusters, &s.recovery, &s.quotes}
	return s
}

// start derives everything that is not in the ledger from it.
func (t *session) start() {
	t.began = t.now()
	t.market.SetRates(t.config().Rates)
	t.market.SetBudget(t.config().Budget.ResourceNames)
	t.clusters.start()
	var all []*ledger.Reservation
	t.book.Reservations(func(r *ledger.Reservation) { all = append(all, r) })
	slices.SortFunc(all, func(a, b *ledger.Reservation) int { return int(int64(a.Changed) - int64(b.Changed)) })
	for _, r := range all {
		t.changes.publish(r)
	}
	t.accounts.countBook()
	t.quotes.rescheduleAll()
	t.recovery.begin()
	if t.b.configured {
		t.clusters.recordCeilings()
	}
	t.queue.serve()
}

func (t *session) noteDurable(position uint64) {
	for {
		known := t.durable.Load()
		if position <= known || t.durable.CompareAndSwap(known, position) {
			return
		}
	}
}

// config is what the administrator has set. It is not to be changed.
func (t *session) config() *Config { return &t.b.config }

func (t *session) now() time.Time { return t.b.opts.Now().UTC() }

// record puts an event into the journal's queue and into the ledger, and brings
// everything derived from the ledger up to date.
func (t *session) record(e ledger.Event) error {
	e.At = t.now()
	if err := t.book.Check(&e); err != nil {
		return err
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	if len(data) > journal.MaxRecordBytes {
		return &tooLarge{len(data)}
	}
	commit := t.journal.Append(data)
	if commit.Position() == 0 {
		return errUnavailable()
	}
	t.last = commit
	before := t.book.Reservation(e.Reservation())
	applied := event{Event: &e, size: len(data), victims: t.book.Victims(before), forgotten: t.forgottenBy(&e)}
	if err := t.book.Apply(commit.Position(), &e); err != nil {
		panic(fmt.Sprintf("ledger refused at position %d what it had checked: %v", commit.Position(), err))
	}
	applied.changed = t.book.Reservation(e.Reservation())
	applied.isNew = before == nil && applied.changed != nil
	applied.victims = append(applied.victims, t.book.Victims(applied.changed)...)
	t.notify(applied)
	return nil
}
