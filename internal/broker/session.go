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
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

// session is the broker's state in memory for one term, which lasts from opening the journal until
// the first failure. It consists of the book, the market and the journal, and records events. Its
// components compute all other state from the book and observe events to keep it up to date.
// Broker.mu guards all of it.
type session struct {
	b   *Broker
	log logr.Logger
	// whole is the ledger together with the accounts of what reservations cost; book is the ledger
	// in it.
	whole   *replay.Book
	book    *ledger.State
	market  *decision.Market
	journal *journal.Journal
	// observers are notified of every event, in this order. Healing comes before changes, because
	// changes recomputes deadlines, which depend on when healing tries again. Changes comes before
	// clusters, because changes updates preemptions, on which the free capacity depends.
	observers []observer

	accounts     accounts
	changes      changes
	clusters     clusters
	deadlines    deadlines
	decider      decider
	drains       drains
	excesses     excesses
	healing      healing
	idles        idles
	links        links
	metering     metering
	news         news
	objects      objects
	preemption   preemption
	queue        queueing
	quotes       quotes
	recovery     recovery
	reservations reservations

	// newest is the time of the last event that was replayed after the checkpoint; zero if there was
	// none.
	newest time.Time
	// durable is a position up to which all events are known to be stored. It may be read without
	// Broker.mu.
	durable atomic.Uint64
	// last is the last commit of this term, nil before the first one.
	last *journal.Commit
	// began is when the term began. Deadlines that agents must meet count from this time at the
	// earliest, because agents could not reach the broker before.
	began time.Time
}

func newSession(b *Broker, book *replay.Book, j *journal.Journal) *session {
	s := &session{
		b: b, log: b.opts.Log, whole: book, book: book.State, journal: j, newest: book.Newest,
		market: decision.NewMarket(), objects: objects{},
	}
	s.news = news{s: s, byCluster: map[string]*newsLog{}}
	s.decider = decider{s: s}
	s.drains = drains{s: s}
	s.idles = newIdles(s)
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
	s.metering = metering{s: s, meter: b.meter}
	s.deadlines.expirers = map[string]func(string){
		holdDue: s.quotes.expireQuote, linksDue: s.links.expireReports, excessDue: s.excesses.recordDelayed,
		keysDue: s.accounts.expireKeys, budgetDue: s.accounts.expireRefusals,
		triedDue: s.queue.endExclusion, drainDue: s.drains.updateRecall, idleDue: s.idles.carryOutDue,
	}
	s.changes = changes{s, []reservationObserver{&s.queue, &s.preemption, s.objects, &s.deadlines, &s.news, &s.drains, &s.idles}}
	s.observers = []observer{&s.accounts, &s.healing, &s.links, &s.changes, &s.queue, &s.clusters, &s.recovery, &s.quotes, &s.metering}
	if record := b.opts.RecordSpan; record != nil {
		s.observers = append(s.observers, &traces{s, record})
	}
	return s
}

// start makes the components derive their state from the book, which has been replayed. Then it
// serves the waiting requests that can be served now.
func (s *session) start() {
	s.began = s.now()
	s.derive()
	s.recovery.beginLineage()
	if s.b.configured {
		s.recordConfiguration()
	}
	s.queue.serveWaiting()
}

// derive makes the components compute their state from the book. It records nothing.
func (s *session) derive() {
	s.market.SetRates(s.config().Rates)
	s.market.SetBudget(s.config().Budget.ResourceNames)
	s.clusters.startFromBook()
	s.metering.nameMembers()
	var all []*ledger.Reservation
	s.book.Reservations(func(r *ledger.Reservation) { all = append(all, r) })
	slices.SortFunc(all, func(a, b *ledger.Reservation) int { return int(int64(a.Changed) - int64(b.Changed)) })
	for _, r := range all {
		s.changes.publishChange(r)
	}
	s.accounts.countBook()
	s.quotes.rescheduleAll()
}

// noteDurable stores that all events up to a position are durable.
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

// record checks an event, queues it for the journal, applies it to the book and notifies the
// observers. The event is durable once the commit in s.last has succeeded.
func (s *session) record(e ledger.Event) error {
	e.At = s.now()
	checked, err := s.book.Check(&e)
	if err == nil {
		err = s.whole.CheckEvent(&e)
	}
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
	if s.journal == nil {
		return errUnavailable() // the session of a Past
	}
	commit := s.journal.Append(data)
	if commit.Position() == 0 {
		return errUnavailable()
	}
	s.last = commit
	before := s.book.Reservation(e.Reservation())
	applied := event{Event: &e, size: len(data), victims: s.book.Victims(before), forgotten: s.forgottenBy(&e), prior: priorOf(before, e.Change)}
	s.whole.ApplyEvent(checked, &e, commit.Position())
	applied.changed = s.book.Reservation(e.Reservation())
	applied.isNew = before == nil && applied.changed != nil
	applied.victims = append(applied.victims, s.book.Victims(applied.changed)...)
	s.notifyObservers(applied)
	return nil
}
