package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/reservationinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// DurationMeter measures the steps of handshakes and the drains of virtual nodes.
type DurationMeter struct {
	// Handshakes has a series for each step, Drains for each result.
	Handshakes, Drains *prometheus.HistogramVec
}

// NewDurationMeter creates the histograms of handshakes and drains, each series with zero observations.
func NewDurationMeter() *DurationMeter {
	m := &DurationMeter{
		Handshakes: newHistogramVec("agent_handshake_duration_seconds",
			"Time of a step of a handshake: a consumer waits for challenge, credentials and identity, a provider for answer and certificate.",
			"step", .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300),
		Drains: newHistogramVec("agent_drain_duration_seconds",
			"Time to drain the virtual node of an ended placement in whole seconds, by result: evicted in time, deleted after the deadline, or left on the node.",
			"result", 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600),
	}
	for _, step := range plan.HandshakeSteps {
		m.Handshakes.WithLabelValues(string(step))
	}
	for _, result := range reservationinstruction.DrainResults {
		m.Drains.WithLabelValues(string(result))
	}
	return m
}

// ObserveStep records how long a step of a handshake took.
func (m *DurationMeter) ObserveStep(step plan.HandshakeStep, took time.Duration) {
	m.Handshakes.WithLabelValues(string(step)).Observe(took.Seconds())
}

// ObserveDrain records how long a drain took.
func (m *DurationMeter) ObserveDrain(result reservationinstruction.DrainResult, took time.Duration) {
	m.Drains.WithLabelValues(string(result)).Observe(took.Seconds())
}
