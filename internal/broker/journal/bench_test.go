package journal_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// typical has the size of a record about a reservation.
const typical = `{"reserve":{"key":"0f8b2f9e-5a0d-4a71-9a37-1f2f5d1c9f10/1","name":"res-abcdefghij","requester":"rome","provider":"paris","amounts":{"cpu":500,"memory":536870912,"pods":10},"expires":"2030-01-01T00:00:00Z","digest":"c0ffee00c0ffee00c0ffee00"}}`

// BenchmarkAppend measures several goroutines that append, each waiting for its own record.
// Alternately, it measures as many goroutines that create a ConfigMap for each record. It reports
// both rates and their ratio; on a busy machine only the ratio is meaningful.
func BenchmarkAppend(b *testing.B) {
	config := controlplanetest.Start(b).RESTConfig()
	for _, segment := range []int{8 << 10, 64 << 10} {
		for _, appenders := range []int{1, 8, 32, 128} {
			b.Run(fmt.Sprintf("segment=%dKiB/appenders=%d", segment>>10, appenders), func(b *testing.B) {
				benchmarkAppend(b, config, segment, appenders)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, config *rest.Config, segment, appenders int) {
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	j, _, err := journal.Open(ctx, newStore(b, config), name, journal.Options{SegmentBytes: segment})
	runtest.Check(b, err)
	go func() { _ = j.Run(ctx) }()
	appendOne := func(ctx context.Context) error { return j.Append([]byte(typical)).Wait(ctx) }
	createOne := creator(b, config)

	// turn is the number of calls of one kind in a row. The first turn of each kind warms up.
	turn := 20 * appenders
	share(b, appenders, turn, createOne)
	share(b, appenders, turn, appendOne)
	var created, appended time.Duration
	for b.Loop() {
		b.StopTimer()
		created += share(b, appenders, turn, createOne)
		b.StartTimer()
		appended += share(b, appenders, turn, appendOne)
	}
	calls := float64(b.N * turn)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(calls/appended.Seconds(), "records/s")
	b.ReportMetric(calls/created.Seconds(), "creates/s")
	b.ReportMetric(created.Seconds()/appended.Seconds(), "ratio")
}

// creator returns a function that creates a ConfigMap with a typical record.
func creator(b *testing.B, config *rest.Config) func(context.Context) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	runtest.Check(b, err)
	raw := client.CoreV1().ConfigMaps(newNamespace(b, config))
	return func(ctx context.Context) error {
		_, err := raw.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("raw-", unique.Add(1))},
			Data:       map[string]string{"record": typical},
		}, metav1.CreateOptions{})
		return err
	}
}

// share spreads n calls over goroutines and returns how long they took.
func share(b *testing.B, goroutines, n int, call func(context.Context) error) time.Duration {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	start := time.Now()
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// BenchmarkOpen recovers from a large checkpoint and 10,000 records after it. It uses the fake
// store, so it measures the cost without the API server.
func BenchmarkOpen(b *testing.B) {
	server := journaltest.NewServer()
	j, _, err := journal.Open(b.Context(), server.Client(), name, journal.Options{})
	runtest.Check(b, err)
	go func() { _ = j.Run(b.Context()) }()
	runtest.Check(b, j.Append([]byte(typical)).Wait(b.Context()))
	runtest.Check(b, j.Checkpoint(b.Context(), []byte(strings.Repeat(typical, 100_000)), j.Committed(), time.Time{}))
	for range 10_000 {
		runtest.Check(b, j.Append([]byte(typical)).Wait(b.Context()))
	}
	for b.Loop() {
		_, found, err := journal.Open(b.Context(), server.Client(), name, journal.Options{})
		if err != nil || len(found.Records) != 10_000 {
			b.Fatalf("%d records, error %v", len(found.Records), err)
		}
	}
}
