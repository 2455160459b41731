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
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// The tests in this file are examples whose figures were computed by hand.

// advertiseExamples advertises cluster-1, which has more free, and cluster-2, whose free share is
// larger.
func (f *fleet) advertiseExamples() {
	f.t.Helper()
	f.advertise("cluster-1", "15", "30Gi", func(a *v1.Advertisement) {
		a.Capacity = v1.Amounts{"cpu": "16", "memory": "32Gi"}
		a.Allocated = v1.Amounts{"cpu": "5", "memory": "10Gi"}
	})
	f.advertise("cluster-2", "7", "14Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "2", "memory": "4Gi"} })
}

// advertiseLocal advertises local-cluster, which has 8950m of cpu available before any
// reservation.
func (f *fleet) advertiseLocal() {
	f.t.Helper()
	f.advertise("local-cluster", "10", "8025424Ki", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "1050m", "memory": "418Mi"} })
}

func (f *fleet) score(id string) string {
	f.t.Helper()
	view, err := f.Cluster(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return fmt.Sprintf("%s %s", view.Score, view.Score.Band())
}

func TestExamplesOfScores(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertiseExamples()
		f.advertiseLocal()
		f.reserve("rome", "request-1", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "3", "memory": "4Gi"}, TargetClusterID: "local-cluster"})
		for id, want := range map[string]string{
			"cluster-1":     "66.67 Moderate",
			"cluster-2":     "71.43 Good",
			"local-cluster": "50.95 Moderate",
		} {
			if got := f.score(id); got != want {
				t.Errorf("%s scores %s, want %s", id, got, want)
			}
		}
		if got, want := f.available("local-cluster"), "5950m 3403088Ki"; got != want {
			t.Errorf("local-cluster has %s left, want %s", got, want)
		}
	})
}

func TestExamplesOfRequests(t *testing.T) {
	cases := map[string]struct{ cpu, memory, want string }{
		"2 CPU go to the one with the higher score":   {"2", "4Gi", "cluster-2"},
		"8 CPU to the only one with enough resources": {"8", "15Gi", "cluster-1"},
		"20 CPU to none, with a message that says so": {"20", "50Gi", ""},
		"1000 CPU to none":                            {"1000", "4Gi", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertiseExamples()
				r, err := f.RequestReservation(f.t.Context(), "rome", "request-1", request(tc.cpu, tc.memory))
				if tc.want != "" {
					if err != nil || target(r) != tc.want {
						t.Fatalf("got %v, %v, want %s", r, err, tc.want)
					}
					return
				}
				if fault.ReasonOf(err) != fault.NoCandidate || !strings.Contains(err.Error(), "cluster-1: has 10 cpu free, ") {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestExampleOfLocking(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertiseLocal()
		left := []string{cpuOf(f.available("local-cluster"))}
		for i, cpu := range []string{"3", "5", "2"} {
			if _, err := f.RequestReservation(f.t.Context(), "rome", fmt.Sprintf("request-%d", i), &v1.ReservationRequest{Resources: v1.Amounts{"cpu": cpu, "memory": "16Mi"}}); err != nil {
				left = append(left, string(fault.ReasonOf(err)))
				continue
			}
			left = append(left, cpuOf(f.available("local-cluster")))
		}
		if diff := cmp.Diff([]string{"8950m", "5950m", "950m", "NoCandidate"}, left); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if got := cpuOf(f.available("local-cluster")); got != "950m" {
			t.Errorf("%s are left after the refusal", got)
		}
	})
}

func TestExampleOfAnExactFit(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertiseLocal()
		f.reserve("rome", "request-1", request("8950m", "7597392Ki"))
		if got, want := f.available("local-cluster"), "0 0"; got != want {
			t.Errorf("%s is left, want %s", got, want)
		}
		if _, err := f.RequestReservation(f.t.Context(), "rome", "request-2", request("1m", "1")); fault.ReasonOf(err) != fault.NoCandidate {
			t.Errorf("out of nothing: %v", err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
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

func TestExampleOfWeights(t *testing.T) {
	got, err := decision.Preset(decision.PresetMultiCriteria)
	if err != nil {
		t.Fatal(err)
	}
	want := decision.Weights{decision.Availability: 70, decision.Cost: 20, decision.Latency: 5, decision.Reliability: 5}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("weights (-want +got):\n%s", diff)
	}
}

// The requester rome gets no capacity on its own cluster, although that is the largest one.
func TestExampleOfRomeAndParis(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "64", "256Gi")
		f.advertise("paris", "8", "16Gi")
		for i, req := range []*v1.ReservationRequest{request("500m", "256Mi"), request("4", "8Gi")} {
			if r := f.reserve("rome", fmt.Sprintf("request-%d", i), req); target(r) != "paris" {
				t.Errorf("%v is on %s, want paris", req.Resources, target(r))
			}
		}
		if got, want := f.available("paris"), "3500m 7936Mi"; got != want {
			t.Errorf("paris has %s left, want %s", got, want)
		}
	})
}

// A cluster with an agent gets no new placements after three intervals of 30 s without an
// advertisement, and is inactive after 10 minutes.
func TestExampleOfStaleness(t *testing.T) {
	phase := func(f *fleet) ClusterPhase {
		view, err := f.Cluster(f.t.Context(), "paris")
		if err != nil {
			t.Fatal(err)
		}
		return view.Phase
	}
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "16Gi")
		for _, step := range []struct {
			after time.Duration
			want  ClusterPhase
		}{
			{90*time.Second - 1, ClusterActive}, {1, ClusterStale},
			{10*time.Minute - 90*time.Second - 1, ClusterStale}, {1, ClusterInactive},
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
