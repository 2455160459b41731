package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/reservationinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func registerMetrics(all ...prometheus.Collector) error {
	var failed []error
	for _, c := range all {
		failed = append(failed, metrics.Registry.Register(c))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("metrics of the agent: %w", err)
	}
	return nil
}

// callMeter measures the time of calls to the broker, and remembers whether the last one was
// answered.
type callMeter struct {
	now      func() time.Time
	answered atomic.Bool
	up       prometheus.Collector
	duration *prometheus.HistogramVec
}

func newCallMeter(now func() time.Time) *callMeter {
	m := &callMeter{now: now, duration: newHistogramVec("agent_broker_request_duration_seconds",
		"Time of one attempt of a call to the broker, by operation; fetchInstructions and receiveMessages include their wait.",
		"operation", .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)}
	m.up = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agent_broker_up", Help: "1 if the broker answered the last attempt of a call, with whatever status; else 0.",
	}, func() float64 { return numberOf(m.answered.Load()) })
	return m
}

// Describe implements prometheus.Collector.
func (m *callMeter) Describe(out chan<- *prometheus.Desc) {
	m.up.Describe(out)
	m.duration.Describe(out)
}

// Collect implements prometheus.Collector.
func (m *callMeter) Collect(out chan<- prometheus.Metric) {
	m.up.Collect(out)
	m.duration.Collect(out)
}

// watchAttempt is the argument for Transport.WatchAttempts. It ignores attempts that the caller
// cancelled, which say nothing about the broker.
func (m *callMeter) watchAttempt(request *http.Request) func(*http.Response, error) {
	operation, began := operationOf(request), m.now()
	return func(_ *http.Response, err error) {
		if errors.Is(err, context.Canceled) {
			return
		}
		m.answered.Store(err == nil)
		m.duration.WithLabelValues(operation).Observe(m.now().Sub(began).Seconds())
	}
}

// durationMeter measures the steps of handshakes and the drains of virtual nodes.
type durationMeter struct {
	handshakes, drains *prometheus.HistogramVec
}

// newDurationMeter creates the histograms of handshakes and drains, each series with zero observations.
func newDurationMeter() *durationMeter {
	m := &durationMeter{
		handshakes: newHistogramVec("agent_handshake_duration_seconds",
			"Time of a step of a handshake: a consumer waits for challenge, credentials and identity, a provider for answer and certificate.",
			"step", .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300),
		drains: newHistogramVec("agent_drain_duration_seconds",
			"Time to drain the virtual node of an ended placement in whole seconds, by result: evicted in time, deleted after the deadline, or left on the node.",
			"result", 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
	}
	for _, step := range plan.HandshakeSteps {
		m.handshakes.WithLabelValues(string(step))
	}
	for _, result := range reservationinstruction.DrainResults {
		m.drains.WithLabelValues(string(result))
	}
	return m
}

// newHistogramVec returns histograms that can be scraped in both forms: as native histograms, and
// with buckets.
func newHistogramVec(name, help, label string, buckets ...float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, []string{label})
}

func (m *durationMeter) observeStep(step plan.HandshakeStep, took time.Duration) {
	m.handshakes.WithLabelValues(string(step)).Observe(took.Seconds())
}

func (m *durationMeter) observeDrain(result reservationinstruction.DrainResult, took time.Duration) {
	m.drains.WithLabelValues(string(result)).Observe(took.Seconds())
}

// operations maps methods and paths to the operations of the REST API. A name in the path is
// replaced by an empty segment.
var operations = map[string]string{
	"GET ping":                  "ping",
	"POST advertisements":       "publishAdvertisement",
	"POST reservations":         "requestReservation",
	"GET reservations/":         "getReservation",
	"PATCH reservations/":       "changeReservation",
	"DELETE reservations/":      "releaseReservation",
	"POST reservations//status": "reportStatus",
	"GET costs":                 "listCosts",
	"POST quotes":               "requestQuote",
	"DELETE quotes/":            "releaseQuote",
	"GET instructions":          "fetchInstructions",
	"POST holdings":             "announceHoldings",
	"GET messages":              "receiveMessages",
	"POST messages":             "sendMessage",
	"POST certificates":         "renewCertificate",
	"GET enrolments":            "getEnrolmentRules",
	"POST enrolments":           "enrol",
}

// operationOf returns the operation of a request, "other" if the API has no such operation.
func operationOf(request *http.Request) string {
	_, path, _ := strings.Cut(request.URL.Path, "/api/v1/")
	segments := strings.Split(path, "/")
	if len(segments) > 1 {
		segments[1] = ""
	}
	if operation := operations[request.Method+" "+strings.Join(segments, "/")]; operation != "" {
		return operation
	}
	return "other"
}

var (
	agentBuildInfo    = prometheus.NewDesc("agent_build_info", "Always 1; the label says which version runs.", []string{"version"}, nil)
	agentReservations = prometheus.NewDesc("agent_reservations", "Placements of this cluster by its role and their phase.", []string{"role", "phase"}, nil)
	agentLent         = prometheus.NewDesc("agent_lent_resource", "Capacity lent to other clusters: granted to placements, and used by their pods.", []string{"resource", "unit", "state"}, nil)
	agentBorrowed     = prometheus.NewDesc("agent_borrowed_resource", "Capacity of other clusters that placements of this cluster reserve.", []string{"resource", "unit"}, nil)
	agentReady        = prometheus.NewDesc("agent_liqo_ready", "1 if condition LiqoReady of the Advertisement is True, else 0. Absent without peering.", nil, nil)
)

// stateCollector exports metrics of the agent's objects. Only the leading replica does so.
type stateCollector struct {
	elected     <-chan struct{}
	reader      client.Reader
	namespace   string
	advertised  client.ObjectKey
	usedAmounts func() map[string]quantity.Amounts
}

// addStateMetrics registers the metrics that are read from objects at every scrape.
func (a *agent) addStateMetrics(*rest.Config) error {
	return registerMetrics(&stateCollector{
		elected: a.mgr.Elected(), reader: a.mgr.GetClient(), namespace: a.instructionNamespace,
		advertised:  client.ObjectKey{Namespace: a.advertisementNamespace, Name: a.advertisementName},
		usedAmounts: func() map[string]quantity.Amounts { return a.watcher.Snapshot().Used },
	})
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{agentBuildInfo, agentReservations, agentLent, agentBorrowed, agentReady} {
		out <- d
	}
}

// scrapeTimeout limits the reads from the cache, which may not be filled yet.
const scrapeTimeout = 2 * time.Second

// Collect implements prometheus.Collector. It leaves out objects that cannot be read.
func (c *stateCollector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(agentBuildInfo, prometheus.GaugeValue, 1, version.String())
	select {
	case <-c.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var lent agentv1alpha1.ProviderInstructionList
	if c.reader.List(ctx, &lent, client.InNamespace(c.namespace)) == nil {
		c.collectLent(lent.Items, out)
	}
	var borrowed agentv1alpha1.ReservationInstructionList
	if c.reader.List(ctx, &borrowed, client.InNamespace(c.namespace)) == nil {
		collectBorrowed(borrowed.Items, out)
	}
	var adv agentv1alpha1.Advertisement
	if c.reader.Get(ctx, c.advertised, &adv) == nil {
		if ready := meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionLiqoReady); ready != nil {
			out <- prometheus.MustNewConstMetric(agentReady, prometheus.GaugeValue, numberOf(meta.IsStatusConditionTrue(adv.Status.Conditions, ready.Type)))
		}
	}
}

func (c *stateCollector) collectLent(items []agentv1alpha1.ProviderInstruction, out chan<- prometheus.Metric) {
	phases, granted, used := newPhases(), corev1.ResourceList{}, quantity.Amounts{}
	for i := range items {
		phases[phaseOf(items[i].Status.Phase)]++
		addQuantities(granted, items[i].Status.Granted)
	}
	for _, amounts := range c.usedAmounts() {
		used.AddInPlace(amounts)
	}
	sendPhases(out, v1.InstructionRoleProvider, phases)
	usedQuantities := used.ToResourceList()
	for name, q := range granted {
		taken := usedQuantities[name]
		out <- prometheus.MustNewConstMetric(agentLent, prometheus.GaugeValue, q.AsApproximateFloat64(), string(name), unitOf(name), "granted")
		out <- prometheus.MustNewConstMetric(agentLent, prometheus.GaugeValue, taken.AsApproximateFloat64(), string(name), unitOf(name), "used")
	}
}

func collectBorrowed(items []agentv1alpha1.ReservationInstruction, out chan<- prometheus.Metric) {
	phases, borrowed := newPhases(), corev1.ResourceList{}
	for i := range items {
		phase := phaseOf(items[i].Status.Phase)
		phases[phase]++
		if phase != agentv1alpha1.InstructionReleased && phase != agentv1alpha1.InstructionRefused {
			addQuantities(borrowed, items[i].Spec.Resources)
		}
	}
	sendPhases(out, v1.InstructionRoleConsumer, phases)
	for name, q := range borrowed {
		out <- prometheus.MustNewConstMetric(agentBorrowed, prometheus.GaugeValue, q.AsApproximateFloat64(), string(name), unitOf(name))
	}
}

// newPhases returns a count of 0 for every phase, so that each phase has a time series from the
// start.
func newPhases() map[agentv1alpha1.InstructionPhase]int {
	return map[agentv1alpha1.InstructionPhase]int{
		agentv1alpha1.InstructionPending: 0, agentv1alpha1.InstructionPeering: 0, agentv1alpha1.InstructionAwaitingNode: 0,
		agentv1alpha1.InstructionActive: 0, agentv1alpha1.InstructionReleasing: 0,
	}
}

// phaseOf returns the phase of an instruction. An instruction without a status is Pending.
func phaseOf(phase agentv1alpha1.InstructionPhase) agentv1alpha1.InstructionPhase {
	if phase == "" {
		return agentv1alpha1.InstructionPending
	}
	return phase
}

func sendPhases(out chan<- prometheus.Metric, role v1.InstructionRole, phases map[agentv1alpha1.InstructionPhase]int) {
	for phase, n := range phases {
		out <- prometheus.MustNewConstMetric(agentReservations, prometheus.GaugeValue, float64(n), strings.ToLower(string(role)), string(phase))
	}
}

func addQuantities(sum, more corev1.ResourceList) {
	for name, q := range more {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}

func unitOf(name corev1.ResourceName) string {
	switch {
	case name == corev1.ResourceCPU:
		return "core"
	case quantity.InBytes(name):
		return "byte"
	}
	return "unit"
}

func numberOf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
