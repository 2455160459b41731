package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
)

// addGauges registers gauges of the broker's state.
func addGauges(b *broker.Broker) error {
	for _, gauge := range []struct {
		name, help string
		value      func() float64
	}{
		{"broker_serving", "1 while this replica serves agents, 0 while it forwards them or cannot write its journal.", b.Serves},
		{"broker_requests_waiting", "Requests that wait for capacity, phase Queued.", b.Waiting},
		{"broker_clusters_awaited", "Clusters that get nothing new until they announce their holdings; above 0 after the broker was restored from an older state.", b.Awaited},
		{"broker_clusters_paused", "Clusters that get nothing new because they failed to deliver several times in a row.", b.Paused},
		{"broker_clusters_exceeding", "Clusters that several others lend nothing new because they used more than granted.", b.Exceeding},
	} {
		if err := metrics.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: gauge.name, Help: gauge.help}, gauge.value)); err != nil {
			return fmt.Errorf("metric %s: %w", gauge.name, err)
		}
	}
	return nil
}
