// Package metrics counts and measures what the broker does, and exports it to Prometheus.
package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
)

const (
	// otherMembers is the value of the label member for all members beyond Meter.Members.
	// No cluster ID begins with an underscore.
	otherMembers = "_other"
	// defaultMembers is the default of Meter.Members.
	defaultMembers = 200
)

// Meter holds the counters and histograms of this process. They continue when a new term begins,
// but only the serving replica exports them. CountConflict and TimeCommit are safe for concurrent
// use; the broker's lock guards all other calls.
type Meter struct {
	// Members is how many members have metrics of their own. All others share one label.
	Members int

	// named is the set of members that have their own metrics. A member keeps them until the process
	// ends, so that no count moves to another label.
	named map[string]bool

	entered        *prometheus.CounterVec
	rejected       *prometheus.CounterVec
	moves          *prometheus.CounterVec
	decisions      *prometheus.CounterVec
	advertisements *prometheus.CounterVec
	preemptions    *prometheus.CounterVec
	ended          *prometheus.CounterVec
	recordBytes    prometheus.Counter
	conflicts      prometheus.Counter

	decision      prometheus.Histogram
	queueWait     *prometheus.HistogramVec
	acknowledge   prometheus.Histogram
	ready         prometheus.Histogram
	release       prometheus.Histogram
	journalAppend prometheus.Histogram
	journalBatch  prometheus.Histogram
}

// newCounters returns counters with one label. The values of the label are fixed, so that all counters are
// exported from the start.
func newCounters(name, help, label string, values ...string) *prometheus.CounterVec {
	c := newCounterVec(name, help, label)
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

func newCounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// histogramOpts returns the options of a histogram that is exported as a native histogram to
// servers that support this, and with buckets to all others.
func histogramOpts(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

func newHistogram(name, help string, buckets ...float64) prometheus.Histogram {
	return prometheus.NewHistogram(histogramOpts(name, help, buckets...))
}

// Values of labels: results of requests and advertisements, steps of preemptions, and ends of
// waits.
const (
	// Granted, Queued and Refused are the results of new requests.
	Granted = "granted"
	Queued  = "queued"
	Refused = "refused"

	// Material, Unchanged, Repeated, Overtaken and Refused are the results of advertisements.
	Material  = "material"
	Unchanged = "unchanged"
	Repeated  = "repeated"
	Overtaken = "overtaken"

	victimWarned    = "warned"
	victimWithdrawn = "withdrawn"

	waitTimedOut = "timed_out"
	waitReleased = "released"
)

// New returns a Meter whose counters are 0. members is Meter.Members; 0 means 200.
func New(members int) *Meter {
	if members <= 0 {
		members = defaultMembers
	}
	m := &Meter{
		Members: members, named: map[string]bool{},

		entered:  newCounterVec("broker_reservations_total", "Times that reservations entered a phase, by requester.", "phase", "requester"),
		rejected: newCounterVec("broker_candidates_rejected_total", "Candidates that could not serve a request, by reason; a decision rejects many.", "reason"),
		moves:    newCounterVec("broker_moves_total", "Reservations that moved to another provider, by the reason to leave the earlier one.", "reason"),

		decisions:      newCounters("broker_decisions_total", "New requests decided, by result.", "result", Granted, Queued, Refused),
		advertisements: newCounters("broker_advertisements_total", "Advertisements received, by result: material ones are recorded at once, unchanged ones when a decision rests on them.", "result", Material, Unchanged, Repeated, Overtaken, Refused),
		preemptions:    newCounters("broker_preemptions_total", "Placements that had to make room for a higher priority, by step.", "step", victimWarned, victimWithdrawn),
		ended: newCounters("broker_reservations_ended_total", "Reservations that ended, by reason.", "reason",
			string(ledger.EndReleased), string(ledger.EndExpired), string(ledger.EndFailed), string(ledger.EndPreempted), string(ledger.EndIdle)),
		recordBytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "broker_journal_record_bytes_total", Help: "Bytes of the records written to the journal, before compression."}),
		conflicts:   prometheus.NewCounter(prometheus.CounterOpts{Name: "broker_journal_conflicts_total", Help: "Times that this replica stopped serving because another writer, or an edit, had changed the journal."}),

		decision: newHistogram("broker_decision_duration_seconds", "Time to choose a provider among all clusters.",
			5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, .025, .1),
		queueWait: prometheus.NewHistogramVec(histogramOpts("broker_queue_wait_seconds", "Time that requests waited in the queue, by how the wait ended.",
			1, 5, 15, 60, 300, 900, 3600, 4*3600, 24*3600), []string{"result"}),
		acknowledge: newHistogram("broker_acknowledge_duration_seconds", "Time from a grant to the provider's acknowledgement, if the provider did not have to create nodes.",
			.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60),
		ready: newHistogram("broker_time_to_ready_seconds", "Time from a grant, or from the acknowledgement of a provider that created nodes, until the requester's virtual node is Ready for the first time.",
			.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
		release: newHistogram("broker_release_duration_seconds", "Time from a reservation's end until nothing of it is left.",
			.1, .5, 1, 5, 15, 60, 300, 900, 3600, 6*3600),
		journalAppend: newHistogram("broker_journal_append_seconds", "Time of one write of the journal, which commits all records that wait.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15),
		journalBatch: newHistogram("broker_journal_batch_records", "Records that one write of the journal commits.",
			1, 2, 5, 10, 20, 50, 100, 200, 500),
	}
	for _, reason := range append(moveReasons, declined) {
		m.moves.WithLabelValues(reason)
	}
	for _, result := range []string{Granted, waitTimedOut, waitReleased} {
		m.queueWait.WithLabelValues(result)
	}
	return m
}

func (m *Meter) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.entered, m.rejected, m.moves, m.decisions, m.advertisements, m.preemptions, m.ended, m.recordBytes, m.conflicts,
		m.decision, m.queueWait, m.acknowledge, m.ready, m.release, m.journalAppend, m.journalBatch,
	}
}

// Label returns the value of the label member: the member's ID if the member has metrics of its
// own, else otherMembers. A member gets its own with the first call, while there is room in named.
func (m *Meter) Label(id string) string {
	if !m.named[id] {
		if len(m.named) >= m.Members {
			return otherMembers
		}
		m.named[id] = true
	}
	return id
}

// CountDecision counts the result of a new request, unless no decision was made.
func (m *Meter) CountDecision(r *ledger.Reservation, err error) {
	switch {
	case err == nil && r.Waiting != nil:
		m.decisions.WithLabelValues(Queued).Inc()
	case err == nil:
		m.decisions.WithLabelValues(Granted).Inc()
	case fault.ReasonOf(err) == fault.NoCandidate, fault.ReasonOf(err) == fault.QueueFull:
		m.decisions.WithLabelValues(Refused).Inc()
	}
}

// CountAdvertisement counts an advertisement with its result: Material, Unchanged, Repeated,
// Overtaken or Refused.
func (m *Meter) CountAdvertisement(result string) { m.advertisements.WithLabelValues(result).Inc() }

// CountConflict counts a term that ended because another writer changed the journal.
func (m *Meter) CountConflict() { m.conflicts.Inc() }

// TimeDecision measures the choice of a provider.
func (m *Meter) TimeDecision(took time.Duration) { m.decision.Observe(took.Seconds()) }

// CountRejected counts n candidates that a decision rejected for a reason.
func (m *Meter) CountRejected(reason decision.Reason, n int) {
	m.rejected.WithLabelValues(string(reason)).Add(float64(n))
}

// TimeCommit returns a function for journal.Options.OnCommit. This function measures the duration and
// the number of records of each successful write of the journal.
func (m *Meter) TimeCommit(now func() time.Time) func(records int) (done func()) {
	return func(records int) func() {
		began := now()
		return func() {
			m.journalAppend.Observe(now().Sub(began).Seconds())
			m.journalBatch.Observe(float64(records))
		}
	}
}

// Recorder updates a Meter with the events of a term.
type Recorder struct {
	*Meter
	book    *ledger.State
	journal string
}

// Record returns a Recorder for the term with this book. journal is the ID of its journal.
func (m *Meter) Record(book *ledger.State, journal string) *Recorder {
	return &Recorder{m, book, journal}
}

// NameMembers gives each cluster that offers something series of its own, in the order of their IDs. It runs
// before any request is counted, because requesters that are not clusters could otherwise use up
// the limit for such metrics.
func (m *Recorder) NameMembers() {
	var ids []string
	m.book.Clusters(func(c *ledger.Cluster) {
		if !c.IsWithdrawn() {
			ids = append(ids, c.ClusterID)
		}
	})
	slices.Sort(ids)
	for _, id := range ids {
		m.Label(id)
	}
}

// Observe implements term.Observer.
func (m *Recorder) Observe(e term.Event) {
	m.recordBytes.Add(float64(e.Size))
	switch change := e.Change.(type) {
	case *ledger.Offer:
		m.Label(change.ClusterID)
	case *ledger.ForgetCluster:
		m.noteClosed(e)
	case *ledger.End:
		m.ended.WithLabelValues(string(change.Reason)).Inc()
	case *ledger.Preempt:
		m.preemptions.WithLabelValues(victimWarned).Add(float64(len(change.Victims)))
	case *ledger.Withdraw:
		if change.Reason == ledger.Preempted {
			m.preemptions.WithLabelValues(victimWithdrawn).Inc()
		}
	}
	if e.Changed != nil {
		m.observeReservation(e)
	}
}

func (m *Recorder) observeReservation(e term.Event) {
	r := e.Changed
	m.notePhase(e.Prior.Phase, r, e.At)
	if !e.Prior.Waiting.IsZero() && r.Waiting == nil {
		m.observeTraced(m.queueWait.WithLabelValues(waitResult(r)), e.At.Sub(e.Prior.Waiting), r)
	}
	switch change := e.Change.(type) {
	case *ledger.Acknowledge:
		if p := r.Placement(change.Placement); !e.Prior.Acknowledged && !r.HadNodesCreated(p) {
			m.observeTraced(m.acknowledge, e.At.Sub(p.AssignedAt.Time()), r)
		}
	case *ledger.NodeReady:
		if p := r.Placement(change.Placement); p.EverReady && !e.Prior.Ready {
			begun := p.AssignedAt
			if r.HadNodesCreated(p) {
				begun = p.AcknowledgedAt
			}
			m.observeTraced(m.ready, e.At.Sub(begun.Time()), r)
		}
	case *ledger.Move:
		if left := r.Placement(r.Placements[len(r.Placements)-1].Number - 1); left != nil {
			m.noteMove(left.Withdrawn)
		}
	case *ledger.Heal:
		if left := r.Placement(r.Placements[len(r.Placements)-1].Number - 1); left != nil {
			m.noteMove(m.book.WhyLeft(r, left))
		}
	}
}

// notePhase counts that a reservation has entered a phase, if the phase has changed. If the phase before was Releasing,
// it also observes how long the release took.
func (m *Recorder) notePhase(before ledger.Phase, r *ledger.Reservation, at time.Time) {
	phase := r.Phase()
	if phase == before {
		return
	}
	m.entered.WithLabelValues(string(phase), m.Label(r.Requester)).Inc()
	if before == ledger.Releasing {
		m.observeTraced(m.release, at.Sub(r.EndedAt), r)
	}
}

// noteClosed counts the reservations whose release is complete because a cluster was forgotten.
func (m *Recorder) noteClosed(e term.Event) {
	for _, r := range e.Several {
		if r.Over() && !r.Closed {
			m.notePhase(ledger.Releasing, r, e.At)
		}
	}
}

func waitResult(r *ledger.Reservation) string {
	switch r.EndReason {
	case "":
		return Granted
	case ledger.EndFailed:
		return waitTimedOut
	default:
		return waitReleased
	}
}

// declined is the value of the label reason for the reasons that come from providers.
const declined = "Refused"

// moveReasons are the broker's own reasons for leaving a provider.
var moveReasons = []string{
	ledger.ProviderLost, ledger.Forgotten, ledger.NodeLost, ledger.HandshakeRefused, ledger.Preempted, ledger.Recalled, ledger.Drained, string(decision.Unreachable),
	string(ledger.DueAcknowledgement), string(ledger.DueNodes), string(ledger.DueReady), string(ledger.DueNetwork),
}

func (m *Recorder) noteMove(reason string) {
	if !slices.Contains(moveReasons, reason) {
		reason = declined
	}
	m.moves.WithLabelValues(reason).Inc()
}

// observeTraced adds a duration to a histogram, with the reservation and the ID of its trace as
// exemplar.
func (m *Recorder) observeTraced(h prometheus.Observer, took time.Duration, r *ledger.Reservation) {
	seconds := max(took, 0).Seconds()
	if h, ok := h.(prometheus.ExemplarObserver); ok {
		h.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": tracing.TraceOf(m.journal, r.Name).String(), "reservation": r.Name})
		return
	}
	h.Observe(seconds)
}
