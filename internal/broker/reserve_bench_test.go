package broker

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// unlimited is a budget of the journal that one member cannot use up.
const unlimited = 1 << 50

// serving runs a broker in real time with an empty journal until the benchmark ends.
func serving(b *testing.B, config settings.Config) *Broker {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	broker, done, begun := New(Options{Store: journaltest.NewServer().Client(), Log: logr.Discard(), Now: time.Now}), make(chan struct{}), make(chan struct{})
	broker.SetConfig(ctx, config)
	go broker.Feed().Terms(ctx, sync.OnceFunc(func() { close(begun) }))
	go func() {
		defer close(done)
		_ = broker.Run(ctx)
	}()
	b.Cleanup(func() { cancel(); <-done })
	<-begun
	return broker
}

// BenchmarkReserve grants one request after the other with 100 lending clusters. It measures
// the broker alone, without HTTP and an API server.
func BenchmarkReserve(b *testing.B) { reserveRepeatedly(b, serving(b, withoutBudget())) }

// withoutBudget returns a configuration in which one member may reserve without end.
func withoutBudget() settings.Config {
	config := settings.Default()
	config.Budget.JournalPerHour, config.Budget.Reservations = unlimited, math.MaxInt32
	return config
}

func reserveRepeatedly(b *testing.B, broker *Broker) {
	ctx := b.Context()
	whole := quantity.Amounts{"cpu": 1_000_000_000, "memory": 1 << 50}
	for i := range 100 {
		id := fmt.Sprintf("cluster-%06d", i)
		offer := &ledger.Offer{
			ClusterID: id, Capacity: whole, Allocatable: whole, Source: &ledger.Manifest{ObjectRef: ledger.ObjectRef{Name: id}, Digest: "1"},
			Cost: &brokerv1alpha1.Cost{CPUCost: "0.042", MemoryCost: "0.0051", Currency: "EUR"},
		}
		runtest.Check(b, broker.OfferManifest(ctx, offer))
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		asked := &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}}
		if _, err := broker.RequestReservation(ctx, "rome", fmt.Sprint("request-", n), asked); err != nil {
			b.Fatal(err)
		}
	}
}
