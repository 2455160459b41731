package broker

import (
	"fmt"
	"sync"
	"testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// BenchmarkQueue releases one reservation while 10,000 requests wait, one of which fits its
// capacity, and queues another request. It measures until the journal, in memory, has stored both.
func BenchmarkQueue(b *testing.B) {
	const waiters = 10_000
	config := settings.Default()
	config.Queue.MaxLength = waiters + 1
	config.Budget.Reservations, config.Budget.Waiting, config.Budget.JournalPerHour = 2*waiters, waiters+1, unlimited
	ctx, broker := b.Context(), serving(b, config)
	// A provider without an agent need not confirm that capacity is free.
	amounts := quantity.Amounts{"cpu": 1000, "memory": 1 << 30}
	offer := &ledger.Offer{ClusterID: "paris", Capacity: amounts, Allocatable: amounts, Source: &ledger.Manifest{Digest: "1"}}
	runtest.Check(b, broker.OfferManifest(ctx, offer))
	ask := func(key int, cpu string) *v1.Reservation {
		r, err := broker.RequestReservation(ctx, "rome", fmt.Sprint("request-", key), waiting(cpu, "1Gi", patient(86400)))
		runtest.Check(b, err)
		return r
	}
	ask(0, "1")
	var asking sync.WaitGroup
	for i := range 100 {
		asking.Go(func() {
			for n := i; n < waiters; n += 100 {
				ask(1_000_000+n, fmt.Sprint(2+n))
			}
		})
	}
	asking.Wait()
	ask(1, "1")
	for n := 0; b.Loop(); n++ {
		if _, err := broker.ReleaseReservation(ctx, "rome", fmt.Sprint("request-", n), ""); err != nil {
			b.Fatal(err)
		}
		if next := ask(n+2, "1"); next.Phase != v1.ReservationPhaseQueued {
			b.Fatalf("%s is %s", next.Name, next.Phase)
		}
	}
}
