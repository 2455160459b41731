package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// outcomes maps the labels of broker_placements_total to their counts.
var outcomes = map[string]func(ledger.Record) int64{
	"granted":     func(r ledger.Record) int64 { return r.Granted },
	"ready":       func(r ledger.Record) int64 { return r.Ready },
	"refused":     func(r ledger.Record) int64 { return r.Refused },
	"unanswered":  func(r ledger.Record) int64 { return r.Unanswered },
	"never_ready": func(r ledger.Record) int64 { return r.NeverReady },
	"dropped":     func(r ledger.Record) int64 { return r.Dropped },
}

var placementsTotal = prometheus.NewDesc("broker_placements_total",
	"Placements by outcome; granted counts all of them.", []string{"outcome"}, nil)

// outcomeCollector sums the counts of all clusters, once per scrape.
type outcomeCollector func() ledger.Record

// Describe implements prometheus.Collector.
func (c outcomeCollector) Describe(out chan<- *prometheus.Desc) { out <- placementsTotal }

// Collect implements prometheus.Collector.
func (c outcomeCollector) Collect(out chan<- prometheus.Metric) {
	sum := c()
	for outcome, count := range outcomes {
		out <- prometheus.MustNewConstMetric(placementsTotal, prometheus.CounterValue, float64(count(sum)), outcome)
	}
}

// addOutcomes registers broker_placements_total. The counts are in the journal, so they survive
// a change of leader.
func addOutcomes(sum func() ledger.Record) error {
	if err := metrics.Registry.Register(outcomeCollector(sum)); err != nil {
		return fmt.Errorf("metric broker_placements_total: %w", err)
	}
	return nil
}
