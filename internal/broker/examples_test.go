package broker

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// The tests in this file are examples whose figures were computed by hand.

// advertiseLocal advertises local-cluster, which has 8950m of cpu available before any
// reservation.
func (f *fleet) advertiseLocal() {
	f.t.Helper()
	f.advertise("local-cluster", "10", "8025424Ki", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "1050m", "memory": "418Mi"} })
}

func TestExampleOfAScore(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertiseLocal()
		f.reserve("rome", "request-1", request("3", "4Gi"))
		f.wantAvailable("local-cluster", "5950m 3403088Ki")
		view, err := f.Cluster(f.t.Context(), "local-cluster")
		runtest.Check(t, err)
		if got, want := fmt.Sprintf("%s %s", view.Score, view.Score.Band()), "50.95 Moderate"; got != want {
			t.Errorf("local-cluster scores %s, want %s", got, want)
		}
	})
}

func TestExampleOfAnExactFit(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertiseLocal()
		f.reserve("rome", "request-1", request("8950m", "7597392Ki"))
		f.wantAvailable("local-cluster", "0 0")
		f.wantRefusal("rome", "request-2", request("1m", "1"), fault.NoCandidate)
	})
}

// Of many simultaneous requests, exactly those that fit are granted. Their capacity is free again
// once they have expired and the provider has confirmed that nothing is left.
func TestExampleOfConcurrentReservations(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertiseLocal()
		var all sync.WaitGroup
		var mu sync.Mutex
		got := map[fault.Reason]int{}
		for i := range 50 {
			all.Go(func() {
				req := &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "100Mi"}, DurationSeconds: 3600}
				_, err := f.RequestReservation(f.t.Context(), "rome", fmt.Sprintf("request-%02d", i), req)
				mu.Lock()
				defer mu.Unlock()
				got[fault.ReasonOf(err)]++
			})
		}
		all.Wait()
		if diff := cmp.Diff(map[fault.Reason]int{"": 8, fault.NoCandidate: 42}, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if got := cpuOf(f.available("local-cluster")); got != "950m" {
			t.Errorf("%s are left", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		todo, err := f.FetchInstructions(f.t.Context(), "local-cluster", "", 0)
		runtest.Check(t, err)
		for _, in := range todo.Instructions {
			report := &v1.StatusReport{Placement: in.Placement, Role: provider, State: v1.StatusReportStateGone}
			if err := f.ReportStatus(f.t.Context(), "local-cluster", in.Reservation, report); err != nil {
				t.Error(err)
			}
		}
		if got := cpuOf(f.available("local-cluster")); got != "8950m" {
			t.Errorf("%s are left after they have expired", got)
		}
	})
}

// If the clusters have equal resources, the cheapest one wins.
func TestExampleOfCost(t *testing.T) {
	priced := func(cpu string) func(*v1.Advertisement) {
		return func(a *v1.Advertisement) { a.Cost = v1.Cost{CPUCost: cpu, MemoryCost: "0.01", Currency: "USD"} }
	}
	inFleet(t, func(f *fleet) {
		f.advertise("berlin", "16", "64Gi", priced("0.06"))
		f.advertise("paris", "16", "64Gi", priced("0.05"))
		f.advertise("tokyo", "16", "64Gi", priced("0.07"))
		r := f.reserve("rome", "request-1", request("4", "8Gi"))
		got := map[string]string{}
		for _, c := range r.Candidates {
			got[c.ClusterID] = c.Score
		}
		// 4 × 0.05 + 8 × 0.01 = 0.28, 4 × 0.06 + 0.08 = 0.32, 4 × 0.07 + 0.08 = 0.36.
		want := map[string]string{"paris": "100.00", "berlin": "96.25", "tokyo": "93.33"}
		if diff := cmp.Diff(want, got); diff != "" || target(r) != "paris" {
			t.Errorf("on %s, scores (-want +got):\n%s", target(r), diff)
		}
	})
}

// A cluster with an agent gets no new placements after three intervals of 30 s without an
// advertisement, and is inactive after 10 minutes.
func TestExampleOfStaleness(t *testing.T) {
	phase := func(f *fleet) term.ClusterPhase {
		view, err := f.Cluster(f.t.Context(), "paris")
		runtest.Check(t, err)
		return view.Phase
	}
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "16Gi")
		for _, step := range []struct {
			after time.Duration
			want  term.ClusterPhase
		}{
			{90*time.Second - 1, term.Active}, {1, term.Stale},
			{10*time.Minute - 90*time.Second - 1, term.Stale}, {1, term.Inactive},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			if got := phase(f); got != step.want {
				t.Errorf("%s, want %s", got, step.want)
			}
		}
	})
}

func cpuOf(available string) string { return strings.Fields(available)[0] }
