package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/budget"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/excess"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/healing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/idle"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/links"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/metrics"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/quotes"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/traces"
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
	observers []term.Observer

	accounts     *budget.Accounts
	archive      *archive.Archive
	changes      changes
	clusters     clusters
	deadlines    deadlines
	decider      decider
	drains       *drains.Drains
	excesses     *excess.Excesses
	healing      *healing.Healing
	idles        *idle.Idles
	links        *links.Links
	metering     *metrics.Recorder
	news         news
	objects      objects
	preemption   preemption
	queue        queueing
	quotes       *quotes.Quotes
	recovery     *recovery.Recovery
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
	s.drains = drains.New(s)
	s.idles = idle.New(s)
	s.excesses = excess.New(s)
	s.reservations = reservations{s}
	s.accounts = budget.New(s)
	s.deadlines = newDeadlines(s)
	s.clusters = newClusters(s)
	s.recovery = recovery.New(s)
	s.queue = newQueueing(s)
	s.preemption = newPreemption(s)
	s.healing = healing.New(s)
	s.links = links.New(s, s.market)
	s.quotes = quotes.New(s)
	id := ""
	if j != nil { // nil in a Past
		id = j.ID()
	}
	s.metering = b.meter.Record(book.State, id)
	s.archive = archive.New(s, b.opts.Store, JournalName, id)
	s.deadlines.expirers = map[string]func(string){
		quotes.Due: s.quotes.Expire, links.Due: s.links.ExpireReports, excess.Due: s.excesses.RecordDelayed,
		budget.KeysDue: s.accounts.ExpireKeys, budget.RefusalsDue: s.accounts.ExpireRefusals,
		triedDue: s.queue.endExclusion, drains.Due: s.drains.UpdateRecall, idle.Due: s.idles.CarryOutDue,
	}
	s.changes = changes{s, []func(*ledger.Reservation){
		s.queue.reservationChanged, s.preemption.reservationChanged, s.objects.reservationChanged, s.deadlines.reservationChanged,
		s.news.reservationChanged, s.drains.ReservationChanged, s.idles.ReservationChanged,
	}}
	s.observers = []term.Observer{s.accounts, s.healing, s.links, &s.changes, &s.queue, &s.clusters, s.recovery, s.quotes, s.metering}
	if record := b.opts.RecordSpan; record != nil {
		s.observers = append(s.observers, traces.New(id, record))
	}
	return s
}

// start makes the components derive their state from the book, which has been replayed. Then it
// serves the waiting requests that can be served now.
func (s *session) start() {
	s.began = s.now()
	s.derive()
	if s.book.Lineages().Present() != nil {
		s.noteDurable(s.book.Position())
	}
	s.recovery.BeginLineage(s.b.newest, s.newest)
	if s.b.configured {
		s.recordConfiguration()
	}
	s.queue.serveWaiting()
}

// derive makes the components compute their state from the book. It records nothing.
func (s *session) derive() {
	s.market.SetRates(s.config().Rates)
	s.clusters.startFromBook()
	s.metering.NameMembers()
	var all []*ledger.Reservation
	s.book.Reservations(func(r *ledger.Reservation) { all = append(all, r) })
	slices.SortFunc(all, func(a, b *ledger.Reservation) int { return int(int64(a.Changed) - int64(b.Changed)) })
	for _, r := range all {
		s.changes.publishChange(r)
	}
	s.accounts.CountBook()
	s.quotes.RescheduleAll()
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
	applied := term.Event{Event: &e, Size: len(data), Victims: s.book.Victims(before), Forgotten: s.forgottenBy(&e), Prior: term.PriorOf(before, e.Change)}
	s.whole.ApplyEvent(checked, &e, commit.Position())
	applied.Changed = s.book.Reservation(e.Reservation())
	applied.IsNew = before == nil && applied.Changed != nil
	applied.Victims = append(applied.Victims, s.book.Victims(applied.Changed)...)
	if _, several := e.Change.(*ledger.ForgetCluster); several {
		applied.Several = s.changedNow()
	}
	for _, o := range s.observers {
		o.Observe(applied)
	}
	return nil
}

// forgottenBy returns the reservations that the book will forget when it applies the event.
func (s *session) forgottenBy(e *ledger.Event) []*ledger.Reservation {
	forget, ok := e.Change.(*ledger.Forget)
	if !ok {
		return nil
	}
	var out []*ledger.Reservation
	for _, name := range forget.Names {
		if r := s.book.Reservation(name); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// changedNow returns the reservations that the last event has changed, sorted by name.
func (s *session) changedNow() []*ledger.Reservation {
	var out []*ledger.Reservation
	s.book.Reservations(func(r *ledger.Reservation) {
		if r.Changed == s.book.Position() {
			out = append(out, r)
		}
	})
	slices.SortFunc(out, func(a, b *ledger.Reservation) int { return strings.Compare(a.Name, b.Name) })
	return out
}
