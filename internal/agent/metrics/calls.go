// Package metrics exports the agent's metrics: its calls to the broker, handshakes and drains, and what its objects say.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Register registers collectors with the registry of the agent's metrics endpoint.
func Register(all ...prometheus.Collector) error {
	var failed []error
	for _, c := range all {
		failed = append(failed, metrics.Registry.Register(c))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("metrics of the agent: %w", err)
	}
	return nil
}

// CallMeter measures the time of calls to the broker, and remembers whether the last one was
// answered.
type CallMeter struct {
	now      func() time.Time
	elected  <-chan struct{}
	answered atomic.Bool
	up       prometheus.Collector
	duration *prometheus.HistogramVec
}

// NewCallMeter returns a meter that reads the clock now. elected is closed once this replica leads.
func NewCallMeter(now func() time.Time, elected <-chan struct{}) *CallMeter {
	m := &CallMeter{now: now, elected: elected, duration: newHistogramVec("agent_broker_request_duration_seconds",
		"Time of one attempt of a call to the broker, by operation; fetchInstructions and receiveMessages include their wait.",
		"operation", .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)}
	m.up = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agent_broker_up", Help: "1 if the broker answered the last attempt of a call, with whatever status; else 0.",
	}, func() float64 { return numberOf(m.answered.Load()) })
	return m
}

// Describe implements prometheus.Collector.
func (m *CallMeter) Describe(out chan<- *prometheus.Desc) {
	m.up.Describe(out)
	m.duration.Describe(out)
}

// Collect implements prometheus.Collector. Only the leader says whether the broker is up: webhooks of other replicas
// call seldom, so that their last attempt may be old.
func (m *CallMeter) Collect(out chan<- prometheus.Metric) {
	select {
	case <-m.elected:
		m.up.Collect(out)
	default:
	}
	m.duration.Collect(out)
}

// WatchAttempt is the argument for Transport.WatchAttempts. It ignores attempts that the caller
// cancelled, which say nothing about the broker.
func (m *CallMeter) WatchAttempt(request *http.Request) func(*http.Response, error) {
	operation, began := operationOf(request), m.now()
	return func(_ *http.Response, err error) {
		if errors.Is(err, context.Canceled) {
			return
		}
		m.answered.Store(err == nil)
		m.duration.WithLabelValues(operation).Observe(m.now().Sub(began).Seconds())
	}
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

// newHistogramVec returns histograms that can be scraped in both forms: as native histograms, and
// with buckets.
func newHistogramVec(name, help, label string, buckets ...float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, []string{label})
}

func numberOf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
