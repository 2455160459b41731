package broker

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
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
	exceedingDesc = prometheus.NewDesc("broker_clusters_exceeding", "Clusters that several others lend nothing new because they used more than granted.", nil, nil)
	positionDesc  = prometheus.NewDesc("broker_journal_position", "Position of the newest event in the journal.", nil, nil)

	infoDesc        = prometheus.NewDesc("broker_cluster_info", "Always 1; the labels describe a cluster.", []string{"member", "name", "region", "zone"}, nil)
	phaseDesc       = prometheus.NewDesc("broker_cluster_phase", "1 for the phase that a cluster is in, else 0; _other counts clusters.", []string{"member", "phase"}, nil)
	heardDesc       = prometheus.NewDesc("broker_cluster_last_heard_timestamp_seconds", "When a cluster was last heard.", []string{"member"}, nil)
	resourceDesc    = prometheus.NewDesc("broker_cluster_resource", "Capacity of a cluster: allocatable, own (requested by its own pods), reserved (the larger of promised and used), used (by pods of reservations) and available for new reservations.", []string{"member", "resource", "unit", "state"}, nil)
	placementsDesc  = prometheus.NewDesc("broker_cluster_placements", "Placements that hold capacity of a cluster.", []string{"member"}, nil)
	reliabilityDesc = prometheus.NewDesc("broker_cluster_reliability_ratio", "Share of its promises that a cluster kept, 0 to 1.", []string{"member"}, nil)
	priceDesc       = prometheus.NewDesc("broker_cluster_price_per_hour", "Price that a cluster asks for one core, GiB or unit.", []string{"member", "resource", "currency"}, nil)
	outcomesDesc    = prometheus.NewDesc("broker_placements_total", "Placements by outcome and provider; granted counts all of them.", []string{"outcome", "member"}, nil)

	reservationsDesc = prometheus.NewDesc("broker_reservations", "Reservations in the book, by phase.", []string{"phase"}, nil)
	oldestDesc       = prometheus.NewDesc("broker_oldest_in_phase_seconds", "How long the reservation that is in a passing phase for the longest has been in it; 0 for none.", []string{"phase"}, nil)
	idleDesc         = prometheus.NewDesc("broker_reservations_idle", "Reservations that nobody uses, as their requesters were told.", nil, nil)
	idleResourceDesc = prometheus.NewDesc("broker_reservations_idle_resource", "Capacity that reservations hold which nobody uses.", []string{"resource", "unit"}, nil)
	unplacedDesc     = prometheus.NewDesc("broker_unplaced_requests", "Requests that wait for capacity, by the reason that rejected the most clusters.", []string{"reason"}, nil)
)

// outcomes maps the values of the label outcome of broker_placements_total to the counts in a
// Record. The counts are part of the book, so they survive a change of leader.
var outcomes = map[string]func(*ledger.Record) int64{
	"granted":     func(r *ledger.Record) int64 { return r.Granted },
	"ready":       func(r *ledger.Record) int64 { return r.Ready },
	"refused":     func(r *ledger.Record) int64 { return r.Refused },
	"unanswered":  func(r *ledger.Record) int64 { return r.Unanswered },
	"never_ready": func(r *ledger.Record) int64 { return r.NeverReady },
	"dropped":     func(r *ledger.Record) int64 { return r.Dropped },
}

// Values of the label state of broker_cluster_resource.
const (
	stateAllocatable = "allocatable"
	stateOwn         = "own"
	stateReserved    = "reserved"
	stateUsed        = "used"
	stateAvailable   = "available"
)

// collector exports metrics about the state of a broker. It copies what it needs while it holds
// Broker.mu, and formats the copy afterwards.
type collector struct{ b *Broker }

// NewCollector returns a collector of all metrics of a broker.
func NewCollector(b *Broker) prometheus.Collector { return collector{b} }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, servingDesc, waitingDesc, awaitedDesc, pausedDesc, exceedingDesc, positionDesc,
		infoDesc, phaseDesc, heardDesc, resourceDesc, placementsDesc, reliabilityDesc, priceDesc, outcomesDesc,
		reservationsDesc, oldestDesc, unplacedDesc, idleDesc, idleResourceDesc, reservedSecondsDesc, usedSecondsDesc, costDesc, savingsDesc,
	} {
		out <- d
	}
	for _, m := range c.b.meter.collectors() {
		m.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	sink := sink{out}
	sink.sendGauge(buildInfo, 1, c.b.opts.Version)
	f := c.b.readFigures()
	if f == nil {
		sink.sendGauge(servingDesc, 0)
		return
	}
	sink.sendGauge(servingDesc, 1)
	for _, m := range c.b.meter.collectors() {
		m.Collect(out)
	}
	f.exportAll(sink)
}

// sink sends metrics to a scrape. It truncates label values and replaces invalid characters in
// them, because they come from members.
type sink struct{ out chan<- prometheus.Metric }

func (s sink) sendGauge(d *prometheus.Desc, value float64, labels ...string) {
	s.sendMetric(d, prometheus.GaugeValue, value, labels)
}

func (s sink) sendCounter(d *prometheus.Desc, value float64, labels ...string) {
	s.sendMetric(d, prometheus.CounterValue, value, labels)
}

func (s sink) sendMetric(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(message.Clip(l, maxLabel), "?")
	}
	s.out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
}

// maxLabel is the length in bytes to which values of labels are cut. Only a malicious member uses
// longer names.
const maxLabel = 253

// figures is a copy of everything in a session that a scrape exports.
type figures struct {
	now                                 time.Time
	position                            uint64
	waiting, awaited, paused, exceeding int
	idle                                int
	idleAmounts                         quantity.Amounts
	reservations                        map[ledger.Phase]int
	oldest                              map[ledger.Phase]time.Time
	unplaced                            []ledger.Explanation
	clusters                            []clusterFigures
	costs                               costFigures
}

// clusterFigures is what a scrape exports about one cluster. The copy shares only amounts that the
// book replaces but never modifies.
type clusterFigures struct {
	ledger.Cluster
	// label is the value of the label member: the cluster's ID or otherMembers.
	label      string
	phase      ClusterPhase
	heard      time.Time
	placements int
	leftOut    []corev1.ResourceName
}

// readFigures returns a copy of the session's figures, nil while this replica does not serve. It
// reads reservations, clusters and accounts one after the other and releases Broker.mu after each
// of them, so that other calls need not wait until all are read.
func (b *Broker) readFigures() *figures {
	f := &figures{idleAmounts: quantity.Amounts{}, reservations: map[ledger.Phase]int{}, oldest: map[ledger.Phase]time.Time{}}
	for _, read := range []func(*session){f.readReservations, f.readClusters, f.readCosts} {
		if !b.withSession(read) {
			return nil
		}
	}
	return f
}

// withSession calls read with the session while it holds Broker.mu. It returns false without
// calling read if this replica does not serve.
func (b *Broker) withSession(read func(*session)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.currentSession()
	if err != nil {
		return false
	}
	read(s)
	return true
}

func (f *figures) readReservations(s *session) {
	f.now, f.position, f.waiting, f.awaited = s.now(), s.book.Position(), s.queue.line.Len(), len(s.recovery.waiting)
	s.book.Reservations(f.addReservation)
}

func (f *figures) readClusters(s *session) {
	f.clusters = make([]clusterFigures, 0, len(s.clusters.byID))
	s.book.Clusters(func(c *ledger.Cluster) { f.addCluster(s, c) })
}

// addReservation counts a reservation by its phase. For a phase that should not last, it also keeps
// the earliest time at which a reservation entered the phase.
func (f *figures) addReservation(r *ledger.Reservation) {
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

func (f *figures) addCluster(s *session, c *ledger.Cluster) {
	p := s.clusters.presenceOf(c.ClusterID)
	if p.standing != nil && p.standing.Paused != "" {
		f.paused++
	}
	if p.excess != nil && p.excess.All != "" {
		f.exceeding++
	}
	f.clusters = append(f.clusters, clusterFigures{
		Cluster: *c, label: s.metering.memberLabel(c.ClusterID), phase: p.phase, heard: p.heard,
		placements: c.Placements(), leftOut: s.market.LeftOut(c.ClusterID),
	})
}

// resourcesByState returns the cluster's amounts by state. It leaves out resources that decisions ignore,
// so that no member can create metrics for invented names.
func (c *clusterFigures) resourcesByState() map[string]quantity.Amounts {
	used := quantity.Amounts{}
	for _, amounts := range c.Used {
		used.AddInPlace(amounts)
	}
	lendable := c.Lendable()
	out := map[string]quantity.Amounts{
		stateAllocatable: lendable, stateOwn: c.Allocated, stateReserved: c.Claimed(), stateUsed: used, stateAvailable: c.Available(),
	}
	for state, amounts := range out {
		kept := make(quantity.Amounts, len(lendable))
		for name := range lendable {
			if !slices.Contains(c.leftOut, name) {
				kept[name] = amounts[name]
			}
		}
		out[state] = kept
	}
	return out
}

// othersFigures are the sums of the figures of all members that share the label otherMembers.
type othersFigures struct {
	count, placements int
	phases            map[ClusterPhase]int
	resources         map[string]quantity.Amounts
	record            ledger.Record
}

func (o *othersFigures) add(c *clusterFigures) {
	o.count++
	o.placements += c.placements
	o.phases[c.phase]++
	for state, amounts := range c.resourcesByState() {
		if o.resources[state] == nil {
			o.resources[state] = quantity.Amounts{}
		}
		o.resources[state].AddInPlace(amounts)
	}
	o.record.Granted += c.Record.Granted
	o.record.Ready += c.Record.Ready
	o.record.Refused += c.Record.Refused
	o.record.Unanswered += c.Record.Unanswered
	o.record.NeverReady += c.Record.NeverReady
	o.record.Dropped += c.Record.Dropped
}

// exportAll sends all metrics about the session's state.
func (f *figures) exportAll(out sink) {
	out.sendGauge(waitingDesc, float64(f.waiting))
	out.sendGauge(awaitedDesc, float64(f.awaited))
	out.sendGauge(pausedDesc, float64(f.paused))
	out.sendGauge(exceedingDesc, float64(f.exceeding))
	out.sendGauge(positionDesc, float64(f.position))
	for _, phase := range []ledger.Phase{ledger.Queued, ledger.Reserved, ledger.Active, ledger.Releasing, ledger.Released, ledger.Failed} {
		out.sendGauge(reservationsDesc, float64(f.reservations[phase]), string(phase))
	}
	for _, phase := range []ledger.Phase{ledger.Queued, ledger.Reserved, ledger.Releasing} {
		age := 0.0
		if since, ok := f.oldest[phase]; ok {
			age = max(f.now.Sub(since), 0).Seconds()
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
	others := othersFigures{phases: map[ClusterPhase]int{}, resources: map[string]quantity.Amounts{}}
	for i := range f.clusters {
		if c := &f.clusters[i]; c.label == otherMembers {
			others.add(c)
		} else {
			c.exportCluster(out, f.now)
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
	out.sendGauge(infoDesc, 1, c.label, c.ClusterName, c.Region, c.Zone)
	for _, phase := range []ClusterPhase{ClusterActive, ClusterStale, ClusterInactive} {
		is := 0.0
		if phase == c.phase {
			is = 1
		}
		out.sendGauge(phaseDesc, is, c.label, string(phase))
	}
	if !c.heard.IsZero() {
		out.sendGauge(heardDesc, float64(c.heard.UnixMilli())/1000, c.label)
	}
	out.sendGauge(placementsDesc, float64(c.placements), c.label)
	if share, known := c.Record.Share(now); known {
		out.sendGauge(reliabilityDesc, share, c.label)
	}
	if c.Cost != nil {
		for name, text := range money.PricesOf(c.Cost) {
			if price, err := strconv.ParseFloat(string(text), 64); err == nil {
				out.sendGauge(priceDesc, price, c.label, string(name), c.Cost.Currency)
			}
		}
	}
	exportResources(out, c.label, c.resourcesByState())
	exportOutcomes(out, c.label, &c.Record)
}

func (o *othersFigures) exportOthers(out sink) {
	if o.count == 0 {
		return
	}
	for _, phase := range []ClusterPhase{ClusterActive, ClusterStale, ClusterInactive} {
		out.sendGauge(phaseDesc, float64(o.phases[phase]), otherMembers, string(phase))
	}
	out.sendGauge(placementsDesc, float64(o.placements), otherMembers)
	exportResources(out, otherMembers, o.resources)
	exportOutcomes(out, otherMembers, &o.record)
}

func exportOutcomes(out sink, member string, r *ledger.Record) {
	for outcome, count := range outcomes {
		out.sendCounter(outcomesDesc, float64(count(r)), outcome, member)
	}
}

func exportResources(out sink, member string, resources map[string]quantity.Amounts) {
	for state, amounts := range resources {
		for name, amount := range amounts {
			unit, base := unitOf(name)
			out.sendGauge(resourceDesc, float64(amount)/base, member, string(name), unit, state)
		}
	}
}
