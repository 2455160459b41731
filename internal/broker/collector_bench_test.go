package broker

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// BenchmarkScrape collects all metrics of 10,000 clusters and 20,000 reservations. locked-ms is how
// long one collection holds the broker's lock, so that no call is answered.
func BenchmarkScrape(b *testing.B) {
	const clusters, reservations, clients = 10_000, 20_000, 64
	config := settings.Default()
	config.Budget.JournalPerHour = unlimited
	ctx, broker := b.Context(), serving(b, config)
	whole := quantity.Amounts{"cpu": 64_000, "memory": 256 << 30}
	for i := range clusters {
		id := fmt.Sprintf("cluster-%06d", i)
		offer := &ledger.Offer{
			ClusterID: id, ClusterName: id, Region: "eu-west", Capacity: whole, Allocatable: whole, Source: &ledger.Manifest{ObjectRef: ledger.ObjectRef{Name: id}, Digest: "1"},
			Cost: &brokerv1alpha1.Cost{CPUCost: "0.042", MemoryCost: "0.0051", Currency: "EUR"},
		}
		runtest.Check(b, broker.OfferManifest(ctx, offer))
	}
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() {
			for n := i; n < reservations; n += clients {
				asked := &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}}
				if _, err := broker.RequestReservation(ctx, fmt.Sprintf("cluster-%06d", n%clusters), fmt.Sprint("request-", n), asked); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	asking.Wait()
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(broker))
	series := 0
	var locked time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		broker.Figures()
		locked += time.Since(began)
		families, err := registry.Gather()
		runtest.Check(b, err)
		series = 0
		for _, family := range families {
			series += len(family.GetMetric())
		}
	}
	b.ReportMetric(float64(series), "series")
	b.ReportMetric(locked.Seconds()*1000/float64(b.N), "locked-ms")
}
