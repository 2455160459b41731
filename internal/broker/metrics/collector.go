package metrics

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Metrics of this process. Every replica exports them.
var (
	buildInfo   = prometheus.NewDesc("broker_build_info", "Always 1; the label says which version runs.", []string{"version"}, nil)
	servingDesc = prometheus.NewDesc("broker_serving", "1 while this replica serves agents, 0 while it forwards them or cannot write its journal.", nil, nil)
)

// Metrics of the book. Only the serving replica exports them.
var (
	waitingDesc   = prometheus.NewDesc("broker_requests_waiting", "Requests that wait for capacity, phase Queued.", nil, nil)
	awaitedDesc   = prometheus.NewDesc("broker_clusters_awaited", "Clusters that get nothing new until they announce their holdings; above 0 after the broker was restored from an older state.", nil, nil)
	pausedDesc    = prometheus.NewDesc("broker_clusters_paused", "Clusters that get nothing new because they failed to deliver several times in a row.", nil, nil)
	exceedingDesc = prometheus.NewDesc("broker_clusters_exceeding", "Clusters that get no new reservations because they exceeded the grants of several providers.", nil, nil)
	positionDesc  = prometheus.NewDesc("broker_journal_position", "Position of the newest event in the journal.", nil, nil)

	infoDesc        = prometheus.NewDesc("broker_cluster_info", "Always 1; the labels describe a cluster.", []string{"member", "name", "region", "zone"}, nil)
	phaseDesc       = prometheus.NewDesc("broker_cluster_phase", "1 for the phase that a cluster is in, else 0; for _other, the number of clusters in the phase.", []string{"member", "phase"}, nil)
	heardDesc       = prometheus.NewDesc("broker_cluster_last_heard_timestamp_seconds", "When a cluster was last heard.", []string{"member"}, nil)
	resourceDesc    = prometheus.NewDesc("broker_cluster_resource", "Capacity of a cluster: allocatable, own (requested by its own pods), reserved (the larger of promised and used), used (by pods of reservations) and available for new reservations (0 if the cluster gets none).", []string{"member", "resource", "unit", "state"}, nil)
	placementsDesc  = prometheus.NewDesc("broker_cluster_placements", "Placements that hold capacity of a cluster, by the phase of the cluster.", []string{"member", "phase"}, nil)
	reliabilityDesc = prometheus.NewDesc("broker_cluster_reliability_ratio", "Share of its promises that a cluster kept, 0 to 1.", []string{"member"}, nil)
	priceDesc       = prometheus.NewDesc("broker_cluster_price_per_hour", "Price that a cluster asks for one core, GiB or unit.", []string{"member", "resource", "currency"}, nil)
	outcomesDesc    = prometheus.NewDesc("broker_placements_total", "Placements by outcome and provider; granted counts all of them.", []string{"outcome", "member"}, nil)

	reservationsDesc = prometheus.NewDesc("broker_reservations", "Reservations in the book, by phase.", []string{"phase"}, nil)
	oldestDesc       = prometheus.NewDesc("broker_oldest_in_phase_seconds", "How long the oldest reservation in phase Queued, Reserved or Releasing has been in it; 0 if there is none.", []string{"phase"}, nil)
	idleDesc         = prometheus.NewDesc("broker_reservations_idle", "Reservations of which the requesters were told that they are idle.", nil, nil)
	idleResourceDesc = prometheus.NewDesc("broker_reservations_idle_resource", "Capacity of idle reservations.", []string{"resource", "unit"}, nil)
	unplacedDesc     = prometheus.NewDesc("broker_unplaced_requests", "Requests that wait for capacity, by the reason that rejected the most clusters.", []string{"reason"}, nil)
)

// outcomes maps the values of the label outcome of broker_placements_total to the counts in a
// Record. The counts are part of the book, so they survive a change of leader.
var outcomes = map[string]func(*reputation.Record) int64{
	"granted":     func(r *reputation.Record) int64 { return r.Granted },
	"ready":       func(r *reputation.Record) int64 { return r.Ready },
	"refused":     func(r *reputation.Record) int64 { return r.Refused },
	"unanswered":  func(r *reputation.Record) int64 { return r.Unanswered },
	"never_ready": func(r *reputation.Record) int64 { return r.NeverReady },
	"dropped":     func(r *reputation.Record) int64 { return r.Dropped },
}

// Values of the label state of broker_cluster_resource.
const (
	stateAllocatable = "allocatable"
	stateOwn         = "own"
	stateReserved    = "reserved"
	stateUsed        = "used"
	stateAvailable   = "available"
)

// Source is where a scrape gets the state of the broker.
type Source interface {
	// Figures returns a copy of the broker's figures, nil while this replica does not serve.
	Figures() *Figures
}

// collector exports the metrics of a broker. It formats a copy of the figures, so that the broker
// need not wait for it.
type collector struct {
	*Meter
	source  Source
	version string
}

// Collector returns a collector of all metrics of a broker of the given version.
func (m *Meter) Collector(source Source, version string) prometheus.Collector {
	return collector{m, source, version}
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, servingDesc, waitingDesc, awaitedDesc, pausedDesc, exceedingDesc, positionDesc,
		infoDesc, phaseDesc, heardDesc, resourceDesc, placementsDesc, reliabilityDesc, priceDesc, outcomesDesc,
		reservationsDesc, oldestDesc, unplacedDesc, idleDesc, idleResourceDesc, reservedSecondsDesc, usedSecondsDesc, costDesc, savingsDesc,
	} {
		out <- d
	}
	for _, m := range c.collectors() {
		m.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	sink := sink{out}
	sink.sendGauge(buildInfo, 1, c.version)
	f := c.source.Figures()
	if f == nil {
		sink.sendGauge(servingDesc, 0)
		return
	}
	sink.sendGauge(servingDesc, 1)
	for _, m := range c.collectors() {
		m.Collect(out)
	}
	f.exportAll(sink)
}

// sink sends metrics to a scrape. It shortens label values and replaces invalid characters in them,
// because they come from members.
type sink struct{ out chan<- prometheus.Metric }

func (s sink) sendGauge(d *prometheus.Desc, value float64, labels ...string) {
	s.sendMetric(d, prometheus.GaugeValue, value, labels)
}

func (s sink) sendCounter(d *prometheus.Desc, value float64, labels ...string) {
	s.sendMetric(d, prometheus.CounterValue, value, labels)
}

func (s sink) sendMetric(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	for i, l := range labels {
		if len(l) > maxLabel { // the digest keeps long names apart: two equal series would fail the scrape
			l = fmt.Sprintf("%s%x", message.Clip(l, maxLabel-16), sha256.Sum256([]byte(l)))[:maxLabel]
		}
		labels[i] = strings.ToValidUTF8(l, "?")
	}
	s.out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
}

// maxLabel is the length in bytes of the longest value of a label. Only a malicious member uses longer
// names.
const maxLabel = 253

// Figures is a copy of everything in a session that a scrape exports.
type Figures struct {
	// Now is the present time.
	Now time.Time
	// Position is that of the newest event in the journal.
	Position uint64
	// Waiting is the number of requests that wait for capacity, Awaited the number of clusters that
	// must announce their holdings.
	Waiting, Awaited int

	paused, exceeding int
	idle              int
	idleAmounts       quantity.Amounts
	reservations      map[ledger.Phase]int
	oldest            map[ledger.Phase]time.Time
	unplaced          []ledger.Explanation
	clusters          []clusterFigures
	costs             costFigures
}

// NewFigures returns figures without any cluster, reservation or cost.
func NewFigures() *Figures {
	return &Figures{idleAmounts: quantity.Amounts{}, reservations: map[ledger.Phase]int{}, oldest: map[ledger.Phase]time.Time{}}
}

// Member is what the broker knows about a cluster and the book does not.
type Member struct {
	// Label is the value of the label member, see Meter.Label.
	Label string
	Phase term.ClusterPhase
	// Heard is when the cluster last advertised; zero if it has not.
	Heard time.Time
	// Closed is true if the cluster gets no new placements: it is silent, denied, awaited, drained or paused. Paused
	// is true if that is because it failed several times in a row, Exceeds if it may request nothing new because it
	// exceeded its grants.
	Closed, Paused, Exceeds bool
}

// clusterFigures is what a scrape exports about one cluster. The copy shares only amounts that the
// book replaces but never modifies.
type clusterFigures struct {
	ledger.Cluster
	Member
	placements int
}

// AddReservation counts a reservation by its phase. For a phase that should not last, it also keeps
// the earliest time at which a reservation entered the phase.
func (f *Figures) AddReservation(r *ledger.Reservation) {
	phase := r.Phase()
	f.reservations[phase]++
	if r.IdleNow() != nil {
		f.idle++
		f.idleAmounts.AddInPlace(r.Amounts)
	}
	var since time.Time
	switch phase {
	case ledger.Queued:
		since = r.Waiting.Since
		f.unplaced = append(f.unplaced, r.Explanation)
	case ledger.Reserved:
		since = r.Current().AssignedAt.Time()
	case ledger.Releasing:
		since = r.EndedAt
	default:
		return
	}
	if first, ok := f.oldest[phase]; !ok || since.Before(first) {
		f.oldest[phase] = since
	}
}

// AddCluster adds a cluster of the book.
func (f *Figures) AddCluster(c *ledger.Cluster, m Member) {
	if m.Paused {
		f.paused++
	}
	if m.Exceeds {
		f.exceeding++
	}
	f.clusters = append(f.clusters, clusterFigures{Cluster: *c, Member: m, placements: c.Placements()})
}

// resourceSums holds amounts by state and resource. They are floating-point numbers, which do not overflow.
type resourceSums map[string]map[corev1.ResourceName]float64

// addAmounts adds the amounts of each resource that a cluster lends.
func (s resourceSums) addAmounts(c *clusterFigures) {
	used := quantity.Amounts{}
	for _, amounts := range c.Used {
		used.AddInPlace(amounts)
	}
	lendable, available := c.Lendable(), quantity.Amounts(nil)
	if !c.Closed {
		available = c.Available()
	}
	for _, of := range [...]struct {
		state   string
		amounts quantity.Amounts
	}{
		{stateAllocatable, lendable}, {stateOwn, c.Allocated}, {stateReserved, c.Claimed()}, {stateUsed, used}, {stateAvailable, available},
	} {
		sums := s[of.state]
		if sums == nil {
			sums = make(map[corev1.ResourceName]float64, len(lendable))
			s[of.state] = sums
		}
		for name := range lendable {
			sums[name] += float64(of.amounts[name])
		}
	}
}

// othersFigures are the sums of the figures of all members that share the label otherMembers.
type othersFigures struct {
	count              int
	phases, placements map[term.ClusterPhase]int
	resources          resourceSums
	record             reputation.Record
}

func (o *othersFigures) addCluster(c *clusterFigures) {
	o.count++
	o.placements[c.Phase] += c.placements
	o.phases[c.Phase]++
	o.resources.addAmounts(c)
	o.record.Granted += c.Record.Granted
	o.record.Ready += c.Record.Ready
	o.record.Refused += c.Record.Refused
	o.record.Unanswered += c.Record.Unanswered
	o.record.NeverReady += c.Record.NeverReady
	o.record.Dropped += c.Record.Dropped
}

// exportAll sends all metrics about the session's state.
func (f *Figures) exportAll(out sink) {
	out.sendGauge(waitingDesc, float64(f.Waiting))
	out.sendGauge(awaitedDesc, float64(f.Awaited))
	out.sendGauge(pausedDesc, float64(f.paused))
	out.sendGauge(exceedingDesc, float64(f.exceeding))
	out.sendGauge(positionDesc, float64(f.Position))
	for _, phase := range []ledger.Phase{ledger.Queued, ledger.Reserved, ledger.Active, ledger.Releasing, ledger.Released, ledger.Failed} {
		out.sendGauge(reservationsDesc, float64(f.reservations[phase]), string(phase))
	}
	for _, phase := range []ledger.Phase{ledger.Queued, ledger.Reserved, ledger.Releasing} {
		age := 0.0
		if since, ok := f.oldest[phase]; ok {
			age = max(f.Now.Sub(since), 0).Seconds()
		}
		out.sendGauge(oldestDesc, age, string(phase))
	}
	for reason, n := range countReasons(f.unplaced) {
		out.sendGauge(unplacedDesc, float64(n), reason)
	}
	out.sendGauge(idleDesc, float64(f.idle))
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, known := f.idleAmounts[name]; !known { // so that queries have an answer while nothing is idle
			unit, _ := unitOf(name)
			out.sendGauge(idleResourceDesc, 0, string(name), unit)
		}
	}
	for name, amount := range f.idleAmounts {
		unit, base := unitOf(name)
		out.sendGauge(idleResourceDesc, float64(amount)/base, string(name), unit)
	}
	others := othersFigures{phases: map[term.ClusterPhase]int{}, placements: map[term.ClusterPhase]int{}, resources: resourceSums{}}
	for i := range f.clusters {
		if c := &f.clusters[i]; c.Label == otherMembers {
			others.addCluster(c)
		} else {
			c.exportCluster(out, f.Now)
		}
	}
	others.exportOthers(out)
	f.costs.exportCosts(out)
}

// countReasons counts waiting requests by the reason that rejected the most clusters. If several
// reasons rejected the same number, it uses the one that sorts first. A request for which no cluster
// was rejected counts under NoCluster.
func countReasons(explanations []ledger.Explanation) map[string]int {
	out := map[string]int{}
	for _, e := range explanations {
		rejected := e.Rejected()
		if len(rejected) == 0 {
			out["NoCluster"]++
			continue
		}
		out[slices.MinFunc(slices.Collect(maps.Keys(rejected)), func(a, b string) int {
			return cmp.Or(cmp.Compare(rejected[b], rejected[a]), cmp.Compare(a, b))
		})]++
	}
	return out
}

func (c *clusterFigures) exportCluster(out sink, now time.Time) {
	out.sendGauge(infoDesc, 1, c.Label, c.ClusterName, c.Region, c.Zone)
	for _, phase := range []term.ClusterPhase{term.Active, term.Stale, term.Inactive} {
		is := 0.0
		if phase == c.Phase {
			is = 1
		}
		out.sendGauge(phaseDesc, is, c.Label, string(phase))
	}
	if !c.Heard.IsZero() {
		out.sendGauge(heardDesc, float64(c.Heard.UnixMilli())/1000, c.Label)
	}
	out.sendGauge(placementsDesc, float64(c.placements), c.Label, string(c.Phase))
	if share, known := c.Record.Share(now); known {
		out.sendGauge(reliabilityDesc, share, c.Label)
	}
	if c.Cost != nil {
		for name, text := range money.PricesOf(c.Cost) {
			if price, err := strconv.ParseFloat(string(text), 64); err == nil {
				out.sendGauge(priceDesc, price, c.Label, string(name), c.Cost.Currency)
			}
		}
	}
	resources := resourceSums{}
	resources.addAmounts(c)
	exportMember(out, c.Label, resources, &c.Record)
}

func (o *othersFigures) exportOthers(out sink) {
	if o.count == 0 {
		return
	}
	for _, phase := range []term.ClusterPhase{term.Active, term.Stale, term.Inactive} {
		out.sendGauge(phaseDesc, float64(o.phases[phase]), otherMembers, string(phase))
		out.sendGauge(placementsDesc, float64(o.placements[phase]), otherMembers, string(phase))
	}
	exportMember(out, otherMembers, o.resources, &o.record)
}

func exportMember(out sink, member string, resources resourceSums, r *reputation.Record) {
	for outcome, count := range outcomes {
		out.sendCounter(outcomesDesc, float64(count(r)), outcome, member)
	}
	for state, amounts := range resources {
		for name, amount := range amounts {
			unit, base := unitOf(name)
			out.sendGauge(resourceDesc, amount/base, member, string(name), unit, state)
		}
	}
}
