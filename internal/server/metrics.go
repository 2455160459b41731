package server

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have bounded labels: operations of the API description and status codes.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "broker_rest_requests_total",
			Help: "Requests answered, by operation of the API and status code.",
		}, []string{"operation", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "broker_rest_request_duration_seconds",
			Help: "Time from a request's header to its answer; long polls include their wait.",
			// Decisions take milliseconds, long polls up to a minute.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"operation"}),
	}
	if registerer == nil {
		return m, nil
	}
	var err error
	if m.requests, err = register(registerer, m.requests); err != nil {
		return nil, err
	}
	m.duration, err = register(registerer, m.duration)
	return m, err
}

// register lets the servers of one process count together.
func register[C prometheus.Collector](registerer prometheus.Registerer, c C) (C, error) {
	err := registerer.Register(c)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := known.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	return c, err
}

func (m *metrics) observe(operation string, code int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(code)).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
}
