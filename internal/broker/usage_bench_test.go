package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
)

// BenchmarkLargestAdvertisement measures the largest possible advertisement, with other
// placements each time. All other calls wait that long.
func BenchmarkLargestAdvertisement(b *testing.B) {
	broker := New(Options{Store: journaltest.NewServer().Client(), Version: "test", Log: logr.Discard(), Now: time.Now})
	c := settings.Default()
	c.Budget.JournalPerHour = unlimited
	broker.SetConfig(b.Context(), c)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	go func() { _ = broker.Run(ctx) }()
	for !broker.Serving() {
		time.Sleep(time.Millisecond)
	}
	n := 0
	for b.Loop() {
		n++
		whole := v1.Amounts{"cpu": "100", "memory": "1Ti"}
		for i := range 60 {
			whole[fmt.Sprintf("evil-%d.example.com/r%d", n, i)] = "1"
		}
		adv := &v1.Advertisement{ClusterID: "evil", Epoch: 1, Sequence: int64(n), Capacity: whole, Allocatable: whole}
		for i := range 4096 {
			adv.Usage = append(adv.Usage, v1.Usage{Reservation: fmt.Sprintf("res-%010d", n*4096+i), Placement: 1, Used: v1.Amounts{"cpu": "1m", "memory": "1Mi", "pods": "1"}})
		}
		if _, err := broker.PublishAdvertisement(ctx, "evil", adv); err != nil {
			b.Fatal(err)
		}
	}
}
