package broker

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// BenchmarkTakeover begins terms on a journal with 10,000 reservations, on a real API server. It
// measures the time from the start of a broker that has not followed the journal to its first
// answer.
func BenchmarkTakeover(b *testing.B) {
	const reservations = 10_000
	plane := controlplanetest.Start(b)
	c, err := client.New(plane.RESTConfig(), client.Options{})
	runtest.Check(b, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "takeover"}}
	runtest.Check(b, c.Create(b.Context(), namespace))
	lead := func() (*Broker, func()) {
		store, err := journal.NewConfigMaps(plane.RESTConfig(), namespace.Name)
		runtest.Check(b, err)
		ctx, cancel := context.WithCancel(b.Context())
		broker, done := New(Options{Store: store, Log: logr.Discard(), Now: time.Now}), make(chan struct{})
		config := settings.Default()
		config.Budget.JournalPerHour = unlimited
		broker.SetConfig(ctx, config)
		begun := make(chan struct{})
		go broker.Feed().Terms(ctx, sync.OnceFunc(func() { close(begun) }))
		go func() {
			defer close(done)
			_ = broker.Run(ctx)
		}()
		<-begun
		return broker, func() { cancel(); <-done }
	}
	broker, stop := lead()
	fill(b, broker, reservations)
	stop()

	for b.Loop() {
		broker, stop := lead()
		if _, err := broker.Ping(b.Context(), "rome"); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		stop()
		b.StartTimer()
	}
}

func fill(b *testing.B, broker *Broker, reservations int) {
	b.Helper()
	whole := v1.Amounts{"cpu": fmt.Sprint(reservations), "memory": "1000Ti"}
	_, err := broker.PublishAdvertisement(b.Context(), "paris", &v1.Advertisement{
		ClusterID: "paris", Epoch: 1, Sequence: 1, Capacity: whole, Allocatable: whole, Allocated: v1.Amounts{},
	})
	runtest.Check(b, err)
	const clients = 256
	var asking sync.WaitGroup
	for i := range clients {
		asking.Go(func() {
			for n := i; n < reservations; n += clients {
				_, err := broker.RequestReservation(b.Context(), "rome", fmt.Sprintf("request-%d", n),
					&v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	asking.Wait()
}
