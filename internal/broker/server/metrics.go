package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// budgetLimits are the values of the label figure. The metric of refusals exists for them, with the value 0, before the
// first refusal.
var budgetLimits = []string{"inFlight", "rate", "bodyRate", "connections", "journal", "reservations", "waiting", "messages"}

// budgeted are the operations with an error budget. Their failures are counted from 0, because a rate does not see the
// first value of a series.
var budgeted = []string{"requestReservation", "changeReservation", "releaseReservation"}

// metrics have only labels with few values: operations of the API description, status codes and figures.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	refusals *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer, files *pki.Files) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "broker_rest_requests_total",
			Help: "Requests answered, by operation of the API and status code.",
		}, []string{"operation", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "broker_rest_request_duration_seconds",
			Help: "Time from the end of a request to its answer, without those answered 429; long polls include their wait.",
			// Decisions take milliseconds, long polls up to a minute.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
			// Servers that read native histograms get them instead of the buckets.
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"operation"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "broker_member_refusals_total",
			Help: "Calls refused because a member exceeded its budget, by figure of the budget. The member's ClusterAdvertisement has details.",
		}, []string{"figure"}),
	}
	for _, figure := range budgetLimits {
		m.refusals.WithLabelValues(figure)
	}
	for _, operation := range budgeted {
		for _, code := range []int{http.StatusInternalServerError, http.StatusServiceUnavailable} {
			m.requests.WithLabelValues(operation, strconv.Itoa(code))
		}
	}
	if registerer == nil {
		return m, nil
	}
	expiry := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "broker_certificate_expiry_timestamp_seconds",
		Help: "Expiry of the broker's server certificate as Unix time, of every replica; 0 without a valid certificate.",
	}, files.Expiry)
	var errs [4]error
	m.requests, errs[0] = registerOnce(registerer, m.requests)
	m.duration, errs[1] = registerOnce(registerer, m.duration)
	m.refusals, errs[2] = registerOnce(registerer, m.refusals)
	_, errs[3] = registerOnce(registerer, expiry)
	return m, errors.Join(errs[:]...)
}

// registerOnce returns the existing collector if there is one, so that the servers of one process share it.
func registerOnce[C prometheus.Collector](registerer prometheus.Registerer, c C) (C, error) {
	err := registerer.Register(c)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := known.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	return c, err
}

func (m *metrics) observeRequest(operation string, code int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(code)).Inc()
	if code != http.StatusTooManyRequests { // a flood of refused calls would hide how long the others take
		m.duration.WithLabelValues(operation).Observe(took.Seconds())
	}
}

func (s *Server) noteRefusal(x *exchange) {
	if stopped, ok := errors.AsType[*fault.Error](x.err); ok && stopped.Figure != "" {
		s.overBudget(x.cluster, stopped.Figure, stopped.Detail)
	}
}

// overBudget counts a refused call or a closed connection of a member that exceeded its budget, and calls onRefusal. It
// logs only closed connections; recordExchange logs refused calls.
func (s *Server) overBudget(member, figure, detail string) {
	s.metrics.refusals.WithLabelValues(figure).Inc()
	if figure == "connections" && !s.limits.isRepeated(member, figure, s.opts.Clock.Now()) {
		s.opts.Log.Info("connection closed", "cluster", member, "detail", detail)
	}
	if s.opts.OnRefusal != nil {
		s.opts.OnRefusal(member, figure, detail)
	}
}
