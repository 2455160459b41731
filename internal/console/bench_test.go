package console

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// largeBroker returns a broker's cluster with many copies of the two clusters and reservations of viewtest.
func largeBroker(t testing.TB, clusters, reservations int) *fixedObjects {
	t.Helper()
	few := brokerSnapshot(t)
	many := &view.Snapshot{Context: "Broker", At: noon, Broker: &view.BrokerObjects{Config: few.Broker.Config}}
	for i := range clusters {
		c := few.Broker.Clusters[i%len(few.Broker.Clusters)].DeepCopy()
		c.Name = fmt.Sprintf("cluster-%05d", i)
		c.UID = types.UID(c.Name)
		many.Broker.Clusters = append(many.Broker.Clusters, c)
	}
	for i := range reservations {
		r := few.Broker.Reservations[i%len(few.Broker.Reservations)].DeepCopy()
		r.Namespace = "default"
		r.Name = fmt.Sprintf("reservation-%06d", i)
		r.UID = types.UID(r.Name)
		r.Status.ReservationName = fmt.Sprintf("res-%010d", i)
		if r.Status.Queue != nil {
			r.Status.Queue.Position = int32(i + 1)
		}
		many.Broker.Reservations = append(many.Broker.Reservations, r)
	}
	many.Broker.Ordered = true
	return &fixedObjects{view: many}
}

// pathsOfLargeBroker are the pages that the benchmarks make.
var pathsOfLargeBroker = []string{
	"/", "/clusters", "/reservations", "/reservations?phase=Active&text=42", "/queue", "/requesters", "/configuration",
	"/objects/reservation/default/reservation-000000", "/objects/clusteradvertisement/default/cluster-00001",
}

// cpuTime returns how long the processors have worked for this process. Unlike the time that passed, it does not depend
// on what else runs on the machine.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkPages makes each page of a large federation: again while nothing changes, and for the first user after a
// change.
func BenchmarkPages(b *testing.B) {
	objects := largeBroker(b, 10_000, 100_000)
	handler := newHandler(siteOf(objects))
	for _, path := range pathsOfLargeBroker {
		for name, afterChange := range map[string]bool{"again": false, "changed": true} {
			b.Run(name+path, func(b *testing.B) {
				size, begin := 0, cpuTime(b)
				for b.Loop() {
					if afterChange {
						objects.parts = nil
					}
					recorder, request := httptest.NewRecorder(), httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
					request.Header.Set("Authorization", "Bearer admin")
					request.Header.Set("Accept-Encoding", "gzip")
					handler.ServeHTTP(recorder, request)
					if recorder.Code != http.StatusOK {
						b.Fatalf("%s: %d", path, recorder.Code)
					}
					size = recorder.Body.Len()
				}
				b.ReportMetric(float64(size), "bytes/page")
				b.ReportMetric(float64(cpuTime(b)-begin)/float64(b.N)/1e6, "cpu-ms/page")
			})
		}
	}
}

// BenchmarkSnapshot lists the objects of a large federation after one of them changed.
func BenchmarkSnapshot(b *testing.B) {
	all := largeBroker(b, 0, 100_000).view.Broker.Reservations
	kept := newOrdered[*brokerv1alpha1.Reservation]()
	handler := kept.handler(func() {})
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(all)) {
		handler.OnAdd(all[i], true)
	}
	for b.Loop() {
		handler.OnUpdate(all[0], all[0])
		if n := len(kept.list()); n != len(all) {
			b.Fatalf("%d objects, want %d", n, len(all))
		}
	}
}
