package broker

import (
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
// until the first failure. It keeps the book, the market and the journal, and records events.
// Components derive all other state from the book and observe events to keep it up to date.
// Broker.mu guards all of it.
type session struct {
	b       *Broker
	log     logr.Logger
	book    *ledger.State
	market  *decision.Market
	journal *journal.Journal
	// observers are notified of every event, in this order. Healing comes before changes,
	// because deadlines depend on its retries. Changes come before clusters, because the free
	// capacity depends on the preemptors and their victims.
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
	// began is when the term began. An agent's earlier calls count as made at that time.
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
	s.deadlines.expirers = map[string]func(string){
		holdDue: s.quotes.expireQuote, linksDue: s.links.expireReports, excessDue: s.excesses.recordDelayed,
		keysDue: s.accounts.expireKeys, budgetDue: s.accounts.expireRefusals,
		triedDue: s.queue.endExclusion,
	}
	s.changes = changes{s, []reservationObserver{&s.queue, &s.preemption, s.objects, &s.deadlines, &s.news}}
	s.observers = []observer{&s.accounts, &s.healing, &s.links, &s.changes, &s.queue, &s.clusters, &s.recovery, &s.quotes}
	return s
}

// start derives the components from the book.
func (s *session) start() {
	s.began = s.now()
	s.market.SetRates(s.config().Rates)
	s.market.SetBudget(s.config().Budget.ResourceNames)
	s.clusters.startFromBook()
	var all []*ledger.Reservation
	s.book.Reservations(func(r *ledger.Reservation) { all = append(all, r) })
	slices.SortFunc(all, func(a, b *ledger.Reservation) int { return int(int64(a.Changed) - int64(b.Changed)) })
	for _, r := range all {
		s.changes.publishChange(r)
	}
	s.accounts.countBook()
	s.quotes.rescheduleAll()
	s.recovery.beginLineage()
	if s.b.configured {
		s.clusters.recordCeilings()
	}
	s.queue.serveWaiting()
}

// noteDurable notes that all events up to a position are stored.
func (s *session) noteDurable(position uint64) {
	for {
		known := s.durable.Load()
		if position <= known || s.durable.CompareAndSwap(known, position) {
			return
		}
	}
}

// config returns the current configuration. Callers must not change it.
func (s *session) config() *Config { return &s.b.config }

func (s *session) now() time.Time { return s.b.opts.Now().UTC() }

// record queues an event for the journal, applies it to the book and notifies the observers.
// The event is durable once s.last is.
func (s *session) record(e ledger.Event) error {
	e.At = s.now()
	checked, err := s.book.Check(&e)
	if err != nil {
		return err
	}
	data, err := e.MarshalJSON()
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	if len(data) > journal.MaxRecordBytes {
		return &tooLarge{len(data)}
	}
	commit := s.journal.Append(data)
	if commit.Position() == 0 {
		return errUnavailable()
	}
	s.last = commit
	before := s.book.Reservation(e.Reservation())
	applied := event{Event: &e, size: len(data), victims: s.book.Victims(before), forgotten: s.forgottenBy(&e)}
	checked.Apply(commit.Position())
	applied.changed = s.book.Reservation(e.Reservation())
	applied.isNew = before == nil && applied.changed != nil
	applied.victims = append(applied.victims, s.book.Victims(applied.changed)...)
	s.notifyObservers(applied)
	return nil
}
