package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/links"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func endpointOf(id string) string { return "https://" + id + ".example:6443" }

func shut(id string) v1.Link {
	return v1.Link{ClusterID: id, EndpointURL: endpointOf(id), Message: "connection refused"}
}

func open(id string, roundTrip time.Duration) v1.Link {
	return v1.Link{ClusterID: id, EndpointURL: endpointOf(id), Reachable: true, RoundTripMicroseconds: roundTrip.Microseconds()}
}

// busy makes a cluster less attractive than idle ones.
func busy(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "4"} }

// look advertises rome with its measured links, and returns the providers that it should probe
// next.
func (f *fleet) look(found ...v1.Link) []string {
	f.t.Helper()
	f.sequence++
	amounts := v1.Amounts{"cpu": "1", "memory": "1Gi"}
	receipt, err := f.PublishAdvertisement(context.Background(), "rome", &v1.Advertisement{
		ClusterID: "rome", Epoch: 1, Sequence: f.sequence, EndpointURL: endpointOf("rome"),
		Capacity: amounts, Allocatable: amounts, Allocated: v1.Amounts{}, Links: found,
	})
	runtest.Check(f.t, err)
	var out []string
	for _, p := range receipt.Peers {
		if p.EndpointURL != endpointOf(p.ClusterID) {
			f.t.Errorf("%s is to be looked for at %s", p.ClusterID, p.EndpointURL)
		}
		out = append(out, p.ClusterID)
	}
	return out
}

func TestUnreachableProviderIsRejectedWithTheReason(t *testing.T) {
	tests := map[string]struct {
		found []v1.Link
		then  func(f *fleet)
		want  string
	}{
		"nobody looked":                      {nil, nil, "paris"},
		"the best is reachable":              {[]v1.Link{open("paris", time.Millisecond)}, nil, "paris"},
		"the best is not reachable":          {[]v1.Link{shut("paris")}, nil, "berlin"},
		"another one is not":                 {[]v1.Link{shut("berlin")}, nil, "paris"},
		"none is":                            {[]v1.Link{shut("berlin"), shut("paris")}, nil, ""},
		"an address that it no longer has":   {[]v1.Link{{ClusterID: "paris", EndpointURL: "https://old.example"}}, nil, "paris"},
		"a cluster that nobody knows":        {[]v1.Link{shut("nowhere")}, nil, "paris"},
		"it was, and is again":               {[]v1.Link{shut("paris")}, func(f *fleet) { f.look(open("paris", 0)) }, "paris"},
		"nobody looked again for long":       {[]v1.Link{shut("paris")}, func(f *fleet) { f.stay(links.TTL) }, "paris"},
		"it was a while ago":                 {[]v1.Link{shut("paris")}, func(f *fleet) { f.stay(links.TTL - staleAfter) }, "berlin"},
		"the broker was restarted meanwhile": {[]v1.Link{shut("paris")}, func(f *fleet) { f.kill() }, "paris"},
		"it has another address by now": {
			[]v1.Link{shut("paris")},
			func(f *fleet) {
				f.advertise("paris", "16", "64Gi", func(a *v1.Advertisement) { a.EndpointURL = "https://new.example" })
			},
			"paris",
		},
		"an advertisement that was overtaken": {
			[]v1.Link{open("paris", 0)},
			func(f *fleet) {
				_, err := f.PublishAdvertisement(f.t.Context(), "rome", &v1.Advertisement{
					ClusterID: "rome", Epoch: 1, Sequence: f.sequence - 1, EndpointURL: endpointOf("rome"), Links: []v1.Link{shut("paris")},
				})
				if fault.ReasonOf(err) != fault.Conflict {
					f.t.Errorf("got %v, want a conflict", err)
				}
			},
			"paris",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "16", "64Gi")
				f.advertise("berlin", "8", "16Gi", busy)
				f.look(tt.found...)
				if tt.then != nil {
					tt.then(f)
				}
				r, err := f.RequestReservation(context.Background(), "rome", "request-1", request("2", "4Gi"))
				switch {
				case tt.want == "":
					if said := fmt.Sprint(err); fault.ReasonOf(err) != fault.NoCandidate || !strings.Contains(said, "paris: rome cannot reach https://paris.example:6443 since 2000-01-01T00:00:00Z: connection refused") {
						t.Errorf("got %v", err)
					}
				case err != nil:
					t.Error(err)
				case target(r) != tt.want:
					t.Errorf("got %s, want %s", target(r), tt.want)
				}
			})
		})
	}
}

// stay lets time pass while paris and berlin advertise, but not rome.
func (f *fleet) stay(d time.Duration) {
	for range d / advertiseEvery {
		time.Sleep(advertiseEvery)
		f.advertise("paris", "16", "64Gi")
		f.advertise("berlin", "8", "16Gi", busy)
	}
	synctest.Wait()
}

func TestNearerProviderWinsWhereLatencyCounts(t *testing.T) {
	inFleet(t, func(f *fleet) {
		config := settings.Default()
		config.Weights = decision.Weights{decision.Latency: 100}
		f.SetConfig(context.Background(), config)
		f.advertise("paris", "16", "64Gi")
		f.advertise("berlin", "8", "16Gi", busy)
		f.look(open("paris", 80*time.Millisecond), open("berlin", 20*time.Millisecond))
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		got := map[string]string{}
		for _, c := range r.Candidates {
			got[c.ClusterID] = c.Criteria[decision.Latency]
		}
		if diff := cmp.Diff(map[string]string{"berlin": "90.00", "paris": "60.00", "rome": ""}, got); diff != "" || target(r) != "berlin" {
			t.Errorf("%s got it; points (-want +got):\n%s", target(r), diff)
		}
	})
}

func TestWaitingRequestIsServedOnceALinkRecovers(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		f.look(shut("paris"))
		asked := request("2", "4Gi")
		asked.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
		r := f.reserve("rome", "request-1", asked)
		if r.Phase != v1.ReservationPhaseQueued {
			t.Fatalf("it is %s", r.Phase)
		}
		f.look(open("paris", 0))
		if got := f.get("rome", r.Name); got.Phase != v1.ReservationPhaseReserved {
			t.Errorf("it is %s though paris can be reached", got.Phase)
		}
	})
}

func TestUnreachableProviderIsReplacedAtOnce(t *testing.T) {
	cannot := v1.StatusReport{Placement: 1, Role: consumer, State: v1.StatusReportStateRefused, Reason: unreachable, Message: "i/o timeout"}
	tests := map[string]struct {
		before func(f *fleet, r *v1.Reservation)
		change func(*v1.StatusReport)
		want   string
		reason fault.Reason
	}{
		"before anything else": {want: "berlin"},
		"when the provider has acknowledged": {
			before: func(f *fleet, r *v1.Reservation) {
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
			},
			want: "berlin",
		},
		"its node was Ready": {
			before: func(f *fleet, r *v1.Reservation) {
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
				f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
			},
			want: "paris",
		},
		"it refuses the handshake": {
			before: func(f *fleet, r *v1.Reservation) {
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
			},
			change: func(s *v1.StatusReport) { s.Reason = ledger.HandshakeRefused }, want: "berlin",
		},
		"it refuses the handshake of a renewal": {
			before: func(f *fleet, r *v1.Reservation) {
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
				f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
			},
			change: func(s *v1.StatusReport) { s.Reason = ledger.HandshakeRefused }, want: "paris",
		},
		"it refuses for another reason": {
			change: func(s *v1.StatusReport) { s.Reason = "Bored" }, want: "paris", reason: fault.Invalid,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "16", "64Gi")
				f.advertise("berlin", "8", "16Gi", busy)
				f.look()
				r := f.reserve("rome", "request-1", request("2", "4Gi"))
				if tt.before != nil {
					tt.before(f, r)
				}
				report := cannot
				if tt.change != nil {
					tt.change(&report)
				}
				for range 2 { // a repeated report must change nothing
					if err := f.ReportStatus(context.Background(), "rome", r.Name, &report); fault.ReasonOf(err) != tt.reason {
						t.Fatalf("reporting: %v", err)
					}
				}
				if got := f.get("rome", r.Name); target(got) != tt.want {
					t.Errorf("it is on %s, want %s", target(got), tt.want)
				}
				// One refused handshake does not keep the next request away from paris. Only pauses
				// do, after several failures.
				want := tt.want
				if report.Reason == ledger.HandshakeRefused {
					want = "paris"
				}
				if next := f.reserve("rome", "request-2", request("2", "4Gi")); target(next) != want {
					t.Errorf("the next request is on %s, want %s", target(next), want)
				}
			})
		})
	}
}

func TestPeersToProbe(t *testing.T) {
	inFleet(t, func(f *fleet) {
		for i := range 100 {
			f.advertise(fmt.Sprintf("c%02d", i), "8", "16Gi")
		}
		f.advertise("silent", "8", "16Gi", func(a *v1.Advertisement) { a.EndpointURL = "" })

		f.advertise("shy", "8", "16Gi", func(a *v1.Advertisement) { a.Lending.Deny = []string{"rome"} })

		seen := map[string]bool{}
		next := f.look()
		for range 64 / 16 {
			if len(next) != 16 || slices.Contains(next, "rome") || slices.Contains(next, "silent") || slices.Contains(next, "shy") {
				t.Fatalf("rome is to look at %v", next)
			}
			var found []v1.Link
			for _, id := range next {
				if seen[id] {
					t.Errorf("it is to look at %s again", id)
				}
				seen[id] = true
				found = append(found, open(id, time.Millisecond))
			}
			found[0] = shut(found[0].ClusterID)
			next = f.look(found...)
		}
		if len(next) != 0 || !seen["c00"] || !seen["c63"] || seen["c64"] {
			t.Errorf("all %d are fresh, and rome is to look at %v", len(seen), next)
		}
		r := f.reserve("rome", "request-1", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}, TargetClusterID: "c90"})
		if got := f.look(); !slices.Equal(got, []string{"c90"}) {
			t.Errorf("it has something at c90, and is to look at %v", got)
		}
		if got := f.look(open("c90", 0)); !slices.Equal(got, []string{"c90"}) {
			t.Errorf("it has something at c90, and is to look at %v", got)
		}
		runtest.Check(t, f.ReportStatus(context.Background(), "rome", r.Name, &v1.StatusReport{Placement: 1, Role: consumer, State: v1.StatusReportStateRefused, Reason: unreachable}))
		time.Sleep(15 * time.Second)
		if got := f.look(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"c16", "c32", "c48", "c90"}) {
			t.Errorf("a minute later rome is to look at %v: want those it could not reach", got)
		}

		config := settings.Default()
		config.Visibility.Candidates = brokerv1alpha1.CandidatesAnonymous
		f.SetConfig(context.Background(), config)
		f.kill()
		f.SetConfig(context.Background(), config)
		if got := f.look(); len(got) != 0 {
			t.Errorf("it is not told who else there is, and is to look at %v", got)
		}
	})
}
