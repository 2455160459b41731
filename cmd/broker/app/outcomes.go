package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mehdiazizian/liqo-resource-broker/internal/ledger"
)

// outcomes are the labels of broker_placements_total, and what each counts.
var outcomes = map[string]func(ledger.Record) int64{
	"granted":     func(r ledger.Record) int64 { return r.Granted },
	"ready":       func(r ledger.Record) int64 { return r.Ready },
	"refused":     func(r ledger.Record) int64 { return r.Refused },
	"unanswered":  func(r ledger.Record) int64 { return r.Unanswered },
	"never_ready": func(r ledger.Record) int64 { return r.NeverReady },
	"dropped":     func(r ledger.Record) int64 { return r.Dropped },
}

// addOutcomes counts what became of placements. The counts are in the journal: they go on
// with another replica.
func addOutcomes(sum func() ledger.Record) error {
	for outcome, count := range outcomes {
		counter := prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "broker_placements_total", Help: "Placements by what became of them; those granted are all.",
			ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(count(sum())) })
		if err := metrics.Registry.Register(counter); err != nil {
			return fmt.Errorf("metric broker_placements_total of outcome %q: %w", outcome, err)
		}
	}
	return nil
}
