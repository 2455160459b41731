package ledger

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// newFleet returns a book of clusters whose reservations are spread evenly. Every cluster has room
// for two more.
func newFleet(b *testing.B, clusters, reservations int) book {
	b.Helper()
	amounts := quantity.Amounts{corev1.ResourceCPU: 500, corev1.ResourceMemory: 1 << 30}
	room := amounts.Times(int64(reservations/clusters + 2))
	l := newBook(b, offer(rome, nil))
	for i := range clusters {
		l.applyAll(offer(fmt.Sprint("cluster-", i), room))
	}
	for i := range reservations {
		l.applyAll(reserve(fmt.Sprint("r", i), fmt.Sprint("cluster-", i%clusters), amounts))
	}
	return l
}

// BenchmarkReserveAndRelease measures the whole life of a reservation, six events, in a book of
// a thousand clusters. The cost must not grow with the number of reservations in it.
func BenchmarkReserveAndRelease(b *testing.B) {
	for _, reservations := range []int{0, 1_000, 100_000} {
		b.Run(fmt.Sprintf("reservations=%d", reservations), func(b *testing.B) {
			l := newFleet(b, 1000, reservations)
			life := []Event{
				reserve("new", "cluster-7", quantity.Amounts{corev1.ResourceCPU: 500, corev1.ResourceMemory: 1 << 30}),
				acknowledge("new", 1), end("new", EndReleased), providerGone("new", 1), consumerGone("new", 1), forget("new"),
			}
			b.ReportAllocs()
			for b.Loop() {
				for i := range life {
					runtest.Check(b, l.Apply(l.Position()+1, &life[i]))
				}
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	l := newFleet(b, 1000, 100_000)
	event := reserve("new", "cluster-7", quantity.Amounts{corev1.ResourceCPU: 500, corev1.ResourceMemory: 1 << 30})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Check(&event); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOffer measures an offer, which recounts the 100 placements of its cluster.
func BenchmarkOffer(b *testing.B) {
	l := newFleet(b, 1000, 100_000)
	event := offer("cluster-7", cpu(100_000))
	b.ReportAllocs()
	for b.Loop() {
		runtest.Check(b, l.Apply(l.Position()+1, &event))
	}
}

func BenchmarkSnapshot(b *testing.B) {
	l := newFleet(b, 1000, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		l.encodeSnapshot()
	}
}

func BenchmarkRestore(b *testing.B) {
	raw := []byte(newFleet(b, 1000, 100_000).encodeSnapshot())
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Restore(raw); err != nil {
			b.Fatal(err)
		}
	}
}
