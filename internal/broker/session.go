package broker

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/agenda"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/budget"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/clusters"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decider"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/excess"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/healing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/idle"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/links"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/metrics"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/news"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/quotes"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/traces"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
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
	// observers are notified of every event, in this order. Healing comes before publishEvent, because
	// that recomputes deadlines, which depend on when healing tries again. publishEvent comes before
	// clusters, because it updates preemptions, on which the free capacity depends.
	observers []func(term.Event)
	// changeObservers are called after a change of a reservation, or of other state that its view
	// contains. They keep state up to date that is computed from reservations.
	changeObservers []func(*ledger.Reservation)

	// Agenda is the work that parts leave for each other. serving prevents serveWaiting from calling
	// itself through its own grants. expirers carry out the steps that belong to neither a cluster nor
	// a reservation, by the prefix of their names; id is the rest of the name.
	agenda.Agenda
	serving  bool
	expirers map[string]func(id string)

	// The methods of the parts implement the interfaces through which other parts see the session.
	*budget.Accounts
	*archive.Archive
	*clusters.Clusters
	*decider.Decider
	*drains.Drains
	*excess.Excesses
	*healing.Healing
	*idle.Idles
	*links.Links
	*metrics.Recorder
	*news.News
	*quotes.Quotes
	*recovery.Recovery
	*views.Views
	*queueing.Queue

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
		market: decision.NewMarket(), Agenda: agenda.New(),
	}
	s.News = news.New(s.book)
	s.Decider = decider.New(s, s.market)
	s.Drains = drains.New(s)
	s.Idles = idle.New(s)
	s.Excesses = excess.New(s)
	s.Accounts = budget.New(s)
	s.Clusters = clusters.New(s, s.market)
	s.Recovery = recovery.New(s)
	s.Queue = queueing.New(s, s.market)
	s.Healing = healing.New(s)
	s.Links = links.New(s, s.market)
	s.Quotes = quotes.New(s)
	s.Views = views.New(s)
	id := ""
	if j != nil { // nil in a Past
		id = j.ID()
	}
	s.Recorder = b.meter.Record(book.State, id)
	s.Archive = archive.New(s, b.opts.Store, JournalName, id)
	s.expirers = map[string]func(string){
		quotes.Due: s.Quotes.Expire, links.Due: s.Links.ExpireReports, excess.Due: s.Excesses.RecordDelayed,
		budget.KeysDue: s.Accounts.ExpireKeys, budget.RefusalsDue: s.Accounts.ExpireRefusals,
		queueing.TriedDue: s.Queue.EndExclusion, drains.Due: s.Drains.UpdateRecall, idle.Due: s.Idles.CarryOutDue,
	}
	s.changeObservers = []func(*ledger.Reservation){
		s.Queue.ReservationChanged, s.Reschedule, s.News.ReservationChanged,
		s.Drains.ReservationChanged, s.Idles.ReservationChanged,
	}
	s.observers = []func(term.Event){
		s.Accounts.Observe, s.Healing.Observe, s.Links.Observe, s.publishEvent, s.Queue.Observe, s.Clusters.Observe,
		s.Recovery.Observe, s.Quotes.Observe, s.Recorder.Observe,
	}
	if record := b.opts.RecordSpan; record != nil {
		s.observers = append(s.observers, traces.New(id, record).Observe)
	}
	return s
}

// start makes the components derive their state from the book, which has been replayed. Then it
// serves the waiting requests that can be served now.
func (s *session) start() {
	s.began = s.Now()
	s.derive()
	if s.book.Lineages().Present() != nil {
		s.noteDurable(s.book.Position())
	}
	s.Recovery.BeginLineage(s.b.newest, s.newest)
	if s.b.configured {
		s.recordConfiguration()
	}
	s.serveWaiting()
}

// derive makes the components compute their state from the book. It records nothing.
func (s *session) derive() {
	s.market.SetRates(s.config().Rates)
	s.StartFromBook()
	s.Recorder.NameMembers()
	var all []*ledger.Reservation
	s.book.Reservations(func(r *ledger.Reservation) { all = append(all, r) })
	slices.SortFunc(all, func(a, b *ledger.Reservation) int { return int(int64(a.Changed) - int64(b.Changed)) })
	for _, r := range all {
		s.publishChange(r)
	}
	s.refreshOutdated()
	s.Accounts.CountBook()
	s.Quotes.RescheduleAll()
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

// Timeouts returns how long the broker waits for agents.
func (s *session) Timeouts() *term.Timeouts { return &s.config().Timeouts }

// config returns the current configuration. Callers must not change it.
func (s *session) config() *Config { return &s.b.config }

// Now implements term.Term.
func (s *session) Now() time.Time { return s.b.opts.Now().UTC() }

// Record checks an event, queues it for the journal, applies it to the book and notifies the
// observers. The event is durable once the commit in s.last has succeeded.
func (s *session) Record(e ledger.Event) error {
	e.At = s.Now()
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
		return &term.TooLarge{Size: len(data)}
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
		o(applied)
	}
	s.refreshOutdated()
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
