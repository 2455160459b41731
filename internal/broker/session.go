package broker

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/agenda"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/budget"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/clusters"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/deadlines"
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reservations"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/traces"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

// session is the broker's state in memory for one term, which lasts from opening the journal until
// the first failure. It consists of the book, the market and the journal, and records events. Its
// parts compute all other state from the book and observe events to keep it up to date.
// Broker.mu guards all of it.
type session struct {
	b   *Broker
	log logr.Logger
	// whole is the ledger with the accounts of what reservations cost, book the ledger in it.
	whole   *replay.Book
	book    *ledger.State
	market  *decision.Market
	journal *journal.Journal
	// costPeriods are stored periods of the accounts, which ListCosts reads without the broker's lock.
	costPeriods replay.PeriodCache
	// observers are notified of every event, in this order. Healing comes before publishEvent, because
	// that recomputes deadlines, which depend on when healing tries again. publishEvent comes before
	// clusters, because it updates preemptions, on which the free capacity depends.
	observers []func(term.Event)
	// changeObservers are called after a change of a reservation, or of other state that its view
	// contains. They keep state up to date that is computed from reservations.
	changeObservers []func(*ledger.Reservation)

	// Agenda is the work that parts leave for each other. serving prevents ServeWaiting from calling
	// itself. expirers carry out the due steps of parts other than clusters and deadlines, by the prefix of
	// their names; id is the rest of the name.
	agenda.Agenda
	serving  bool
	expirers map[string]func(id string)

	// The methods of the parts implement the interfaces through which other parts see the session.
	*budget.Limiter
	*archive.Archive
	*clusters.Clusters
	*decider.Decider
	*deadlines.Deadlines
	*drains.Drains
	*excess.Excesses
	*healing.Healing
	*idle.Idles
	*links.Links
	*metrics.Recorder
	*news.News
	*quotes.Quotes
	*recovery.Recovery
	*reservations.Reservations
	*views.Views
	*queueing.Queue

	// newest is the time of the last event after the checkpoint, zero if there was none.
	newest time.Time
	// durable is a position up to which all events are known to be stored. It may be read without
	// Broker.mu.
	durable atomic.Uint64
	// last is the last commit of this term, nil before the first one.
	last *journal.Commit
	// began is when the term began, see term.Term.
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
	s.Deadlines = deadlines.New(s)
	s.Reservations = reservations.New(s, s.market, b.opts.Random)
	s.Idles = idle.New(s)
	s.Excesses = excess.New(s)
	s.Limiter = budget.New(s)
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
		budget.KeysDue: s.Limiter.ExpireKeys, budget.RefusalsDue: s.Limiter.ExpireRefusals,
		queueing.TriedDue: s.Queue.EndExclusion, drains.Due: s.Drains.UpdateRecall, idle.Due: s.Idles.CarryOutDue,
	}
	s.changeObservers = []func(*ledger.Reservation){
		s.Queue.ReservationChanged, s.Reschedule, s.News.ReservationChanged,
		s.Drains.ReservationChanged, s.Idles.ReservationChanged,
	}
	s.observers = []func(term.Event){
		s.Limiter.Observe, s.Healing.Observe, s.Links.Observe, s.publishEvent, s.Queue.Observe, s.Clusters.Observe,
		s.Recovery.Observe, s.Quotes.Observe, s.Recorder.Observe,
	}
	if record := b.opts.RecordSpan; record != nil {
		s.observers = append(s.observers, traces.New(id, record).Observe)
	}
	return s
}

// startTerm makes the parts derive their state from the book, which has been replayed. Then it
// serves the waiting requests that can be served now.
func (s *session) startTerm() {
	s.began = s.Now()
	s.deriveState()
	if s.book.Lineages().Present() != nil {
		s.noteDurable(s.book.Position())
	}
	s.Recovery.BeginLineage(s.b.newest, s.newest)
	if s.b.configured {
		s.recordConfiguration()
	}
	s.ServeWaiting()
}

// deriveState makes the parts compute their state from the book. It records nothing.
func (s *session) deriveState() {
	s.market.SetRates(s.currentConfig().Rates)
	s.StartFromBook()
	s.Recorder.NameMembers()
	var all []*ledger.Reservation
	s.book.Reservations(func(r *ledger.Reservation) { all = append(all, r) })
	slices.SortFunc(all, func(a, b *ledger.Reservation) int { return int(int64(a.Changed) - int64(b.Changed)) })
	for _, r := range all {
		s.publishChange(r)
	}
	s.refreshOutdated()
	s.Limiter.CountFromBook()
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

// currentConfig returns the current configuration. Callers must not change it.
func (s *session) currentConfig() *settings.Config { return &s.b.config }

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
	applied := term.EventOn(s.book, &e, len(data), func() { s.whole.ApplyEvent(checked, &e, commit.Position()) })
	for _, o := range s.observers {
		o(applied)
	}
	s.refreshOutdated()
	return nil
}
