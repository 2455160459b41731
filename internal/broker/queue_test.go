package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// waiting returns a request that waits if no cluster has room.
func waiting(cpu, memory string, change ...func(*v1.ReservationRequest)) *v1.ReservationRequest {
	req := request(cpu, memory)
	req.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
	for _, c := range change {
		c(req)
	}
	return req
}

func priority(n int32) func(*v1.ReservationRequest) {
	return func(r *v1.ReservationRequest) { r.Priority = n }
}

func lastingAnHour(r *v1.ReservationRequest) { r.DurationSeconds = 3600 }

func patient(seconds int64) func(*v1.ReservationRequest) {
	return func(r *v1.ReservationRequest) { r.QueueTimeoutSeconds = seconds }
}

// giveBack releases a reservation, and makes its last provider confirm that nothing is left.
func (f *fleet) giveBack(r *v1.Reservation) {
	f.t.Helper()
	f.release(r.RequesterID, r.Name)
	f.confirm(r)
}

// confirm makes the provider of the last placement report Gone, unless it is Gone already.
func (f *fleet) confirm(r *v1.Reservation) {
	f.t.Helper()
	now := f.get(r.RequesterID, r.Name)
	p := now.Placements[len(now.Placements)-1]
	if p.State == v1.PlacementStateGone {
		return
	}
	f.mustReport(p.ClusterID, r, int(p.Number), provider, v1.StatusReportStateGone)
}

// wantPhases compares the phases of reservations, and their providers or places in the queue.
func (f *fleet) wantPhases(want string, all ...*v1.Reservation) {
	f.t.Helper()
	synctest.Wait()
	var got []string
	for _, r := range all {
		now := f.get(r.RequesterID, r.Name)
		text := string(now.Phase)
		switch {
		case now.Queue != nil:
			text = fmt.Sprint(text, " ", now.Queue.Position)
		case now.Phase == v1.ReservationPhaseReserved, now.Phase == v1.ReservationPhaseActive:
			text += " " + target(now)
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
		f.t.Errorf("phases (-want +got):\n%s", diff)
	}
}

func TestRequestWaitsWhenNothingFits(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		first := f.reserve("rome", "request-1", request("4", "4Gi"))
		second := f.reserve("rome", "request-2", waiting("4", "4Gi"))
		if second.Phase != v1.ReservationPhaseQueued || second.Queue.Position != 1 || second.Queue.Reason != v1.QueuePlaceReasonNoCandidate {
			t.Fatalf("%s, %+v", second.Phase, second.Queue)
		}
		for _, part := range []string{"place 1 of 1", "no cluster can hold cpu=4 memory=4Gi: paris: "} {
			if !strings.Contains(second.Message, part) {
				t.Errorf("nothing of %q in %q", part, second.Message)
			}
		}
		if second.Instruction.Reservation != "" || len(second.Candidates) != 2 {
			t.Errorf("instruction %+v, candidates %+v", second.Instruction, second.Candidates)
		}
		if again := f.reserve("rome", "request-2", waiting("4", "4Gi")); again.Name != second.Name || again.Phase != v1.ReservationPhaseQueued {
			t.Errorf("a repeated request got %s %s, want %s", again.Name, again.Phase, second.Name)
		}
		f.wantRefusal("rome", "request-2", request("4", "4Gi"), fault.KeyReused)

		began := time.Now()
		f.giveBack(first)
		f.wantPhases("Releasing, Reserved paris", first, second)
		granted := f.get("rome", second.Name)
		if in := granted.Instruction; in.Placement != 1 || in.ProviderID != "paris" || in.Key != "request-2" {
			t.Errorf("instruction %+v", in)
		}
		if time.Since(granted.ReservedAt) > time.Second || granted.ReservedAt.Before(began) || granted.Queue != nil {
			t.Errorf("reserved at %s, queue %+v", granted.ReservedAt, granted.Queue)
		}
	})
}

func TestQueueNewsReachTheRequester(t *testing.T) {
	tests := map[string]struct {
		happens func(f *fleet, holder, waits *v1.Reservation)
		want    string
	}{
		"it is granted": {
			happens: func(f *fleet, holder, _ *v1.Reservation) { f.giveBack(holder) },
			want:    "instruction Hold for key request-2",
		},
		"it has waited long enough": {
			happens: func(f *fleet, _, _ *v1.Reservation) { time.Sleep(time.Minute) },
			want:    "request request-2 is Failed",
		},
		"it is given back": {
			happens: func(f *fleet, _, waits *v1.Reservation) {
				f.release("rome", waits.Name)
			},
			want: "request request-2 is Released",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "4", "8Gi")
				holder := f.reserve("berlin", "request-1", request("4", "4Gi"))
				waits := f.reserve("rome", "request-2", waiting("4", "4Gi", patient(60)))
				before, err := f.FetchInstructions(context.Background(), "rome", "", 0)
				if err != nil || len(before.Requests) != 1 || before.Requests[0].Phase != v1.RequestNewsPhaseQueued {
					t.Fatalf("%+v, %v", before, err)
				}
				answer := make(chan *v1.InstructionList, 1)
				go func() {
					list, err := f.FetchInstructions(context.Background(), "rome", before.Cursor, 2*time.Minute)
					if err != nil {
						t.Error(err)
					}
					answer <- list
				}()
				synctest.Wait()
				test.happens(f, holder, waits)
				list := <-answer
				var got []string
				for _, in := range list.Instructions {
					got = append(got, fmt.Sprintf("instruction %s for key %s", in.State, in.Key))
				}
				for _, r := range list.Requests {
					got = append(got, fmt.Sprintf("request %s is %s", r.Key, r.Phase))
				}
				if diff := cmp.Diff([]string{test.want}, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWaitingRequestsAreServedInOrder(t *testing.T) {
	tests := map[string]struct {
		config func(*settings.Config)
		waits  []*v1.ReservationRequest
		want   string // once 4 CPUs are free
	}{
		"the first one": {
			waits: []*v1.ReservationRequest{waiting("3", "1Gi"), waiting("3", "1Gi")},
			want:  "Reserved paris, Queued 1",
		},
		"the higher priority": {
			waits: []*v1.ReservationRequest{waiting("3", "1Gi"), waiting("3", "1Gi", priority(10))},
			want:  "Queued 1, Reserved paris",
		},
		"the first one where the limit makes both the same": {
			config: func(c *settings.Config) { c.PriorityLimits.Of = map[string]int32{"rome": 5} },
			waits:  []*v1.ReservationRequest{waiting("3", "1Gi", priority(5)), waiting("3", "1Gi", priority(10))},
			want:   "Reserved paris, Queued 1",
		},
		"as many as there is room for": {
			waits: []*v1.ReservationRequest{waiting("2", "1Gi"), waiting("2", "1Gi"), waiting("1", "1Gi")},
			want:  "Reserved paris, Reserved paris, Queued 1",
		},
		"a later one where the first one does not fit": {
			waits: []*v1.ReservationRequest{waiting("8", "1Gi", priority(10)), waiting("3", "1Gi")},
			want:  "Queued 1, Reserved paris",
		},
		"nobody who wants to go elsewhere": {
			waits: []*v1.ReservationRequest{
				waiting("3", "1Gi", func(r *v1.ReservationRequest) { r.TargetClusterID = "berlin" }), waiting("3", "1Gi"),
			},
			want: "Queued 1, Reserved paris",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				config := settings.Default()
				if test.config != nil {
					test.config(&config)
				}
				f.SetConfig(context.Background(), config)
				f.advertise("paris", "4", "64Gi")
				holder := f.reserve("berlin", "request-0", request("4", "1Gi"))
				var all []*v1.Reservation
				for i, req := range test.waits {
					all = append(all, f.reserve("rome", fmt.Sprint("request-", i+1), req))
				}
				f.giveBack(holder)
				f.wantPhases(test.want, all...)
			})
		})
	}
}

func TestNewCapacityServesQueue(t *testing.T) {
	tests := map[string]func(f *fleet){
		"a cluster grows": func(f *fleet) { f.advertise("paris", "8", "8Gi") },
		"a cluster grows by as little as is needed": func(f *fleet) {
			f.advertise("paris", "4", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "3"} })
			f.advertise("paris", "4", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "2990m"} })
		},
		"a cluster comes": func(f *fleet) { f.advertise("berlin", "8", "8Gi") },
		"a silent cluster speaks again": func(f *fleet) {
			f.advertise("berlin", "8", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "8"} })
			time.Sleep(staleAfter)
			f.advertise("berlin", "8", "8Gi")
		},
		"a cluster is admitted": func(f *fleet) {
			config := settings.Default()
			config.Access = access.PolicyOf(&brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"berlin"}})
			f.SetConfig(context.Background(), config)
			f.advertise("berlin", "8", "8Gi")
			f.SetConfig(context.Background(), settings.Default())
		},
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "4", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "3"} })
				r := f.reserve("rome", "request-1", waiting("1010m", "1Gi"))
				f.wantPhases("Queued 1", r)
				happens(f)
				synctest.Wait()
				if now := f.get("rome", r.Name); now.Phase != v1.ReservationPhaseReserved {
					t.Errorf("%s: %s", now.Phase, now.Message)
				}
			})
		})
	}
}

func TestNewRequestDoesNotJumpQueue(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "4", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "3"} })
		first := f.reserve("rome", "request-1", waiting("2", "1Gi"))
		// Two cores are free, which suffice for one of the two requests. The waiting one must get
		// them.
		f.advertise("paris", "4", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "2"} })
		second := f.reserve("berlin", "request-1", waiting("2", "1Gi"))
		f.wantPhases("Reserved paris, Queued 1", first, second)
	})
}

// When several clusters become free at once, each is offered to waiting requests in order, even
// if another cluster with room would suit a request better.
func TestFreedClustersAreOfferedInQueueOrder(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "4", "8Gi")
		f.advertise("berlin", "5", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "1"} })
		f.set(func(c *settings.Config) {
			c.Access = access.PolicyOf(&brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"paris", "berlin"}})
		})
		first := f.reserve("rome", "request-1", waiting("4", "1Gi", on("paris")))
		second := f.reserve("rome", "request-2", waiting("3", "1Gi"))
		f.set(func(c *settings.Config) { c.Access = settings.Default().Access })
		f.wantPhases("Reserved paris, Reserved berlin", first, second)
	})
}

func TestQueueTimeoutEndsExactlyOnTime(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "1", "1Gi")
		r := f.reserve("rome", "request-1", waiting("4", "1Gi", patient(90)))
		time.Sleep(90*time.Second - time.Nanosecond)
		f.wantPhases("Queued 1", r)
		time.Sleep(time.Nanosecond)
		f.wantPhases("Failed", r)
		got := f.get("rome", r.Name)
		for _, part := range []string{"it waited 1m30s in the queue", "paris: "} {
			if !strings.Contains(got.Message, part) {
				t.Errorf("nothing of %q in %q", part, got.Message)
			}
		}
		if waiting := scrape(t, f.Broker)["broker_requests_waiting"]; len(got.Candidates) != 1 || waiting != "0" {
			t.Errorf("candidates %+v, %s wait", got.Candidates, waiting)
		}
	})
}

func TestLeavingTheQueue(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "4", "8Gi")
		holder := f.reserve("berlin", "request-1", request("4", "1Gi"))
		first := f.reserve("rome", "request-1", waiting("4", "1Gi"))
		second := f.reserve("rome", "request-2", waiting("4", "1Gi"))
		f.release("rome", "request-1")
		f.wantPhases("Released, Queued 1", first, second)
		if again := f.reserve("rome", "request-1", waiting("4", "1Gi")); again.Phase != v1.ReservationPhaseReleased {
			t.Errorf("a repeated request that was given back is %s", again.Phase)
		}
		f.giveBack(holder)
		f.wantPhases("Released, Reserved paris", first, second)
	})
}

func TestQueueIsBounded(t *testing.T) {
	inFleet(t, func(f *fleet) {
		config := settings.Default()
		config.Queue.MaxLength = 1
		f.SetConfig(context.Background(), config)
		f.advertise("paris", "1", "1Gi")
		f.reserve("rome", "request-1", waiting("4", "1Gi"))
		_, err := f.RequestReservation(context.Background(), "rome", "request-2", waiting("4", "1Gi"))
		if fault.ReasonOf(err) != fault.QueueFull || err.(*fault.Error).RetryAfter == 0 || !strings.Contains(err.Error(), "maxLength") {
			t.Errorf("got %v", err)
		}
		f.reserve("rome", "request-1", waiting("4", "1Gi"))
	})
}

func TestQueueSurvivesCrash(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		holder := f.reserve("rome", "request-0", request("4", "1Gi"))
		var all []*v1.Reservation
		for i, p := range []int32{0, 10, 0} {
			all = append(all, f.reserve("rome", fmt.Sprint("request-", i+1), waiting("4", "1Gi", priority(p))))
		}
		f.wantPhases("Queued 2, Queued 1, Queued 3", all...)
		f.kill()
		f.wantPhases("Queued 2, Queued 1, Queued 3", all...)
		f.giveBack(holder)
		f.wantPhases("Queued 1, Reserved paris, Queued 2", all...)
		f.kill()
		f.wantPhases("Queued 1, Reserved paris, Queued 2", all...)
		time.Sleep(time.Hour)
		f.wantPhases("Failed, Failed", all[0], all[2])
	})
}

func TestQueuedRequestKeepsItsWholeDuration(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "4", "8Gi")
		holder := f.reserve("berlin", "request-1", request("4", "1Gi"))
		r := f.reserve("rome", "request-1", waiting("4", "1Gi", func(r *v1.ReservationRequest) { r.DurationSeconds = 600 }))
		time.Sleep(9 * time.Minute)
		f.giveBack(holder)
		f.advertise("paris", "4", "8Gi")
		if got := f.get("rome", r.Name); got.RemainingSeconds == nil || *got.RemainingSeconds != 600 {
			t.Errorf("%s, %v seconds are left, want 600", got.Phase, got.RemainingSeconds)
		}
	})
}

func TestReservationWithoutPlacementQueues(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		r := f.reserve("rome", "request-1", waiting("4", "1Gi"))
		time.Sleep(time.Second)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
		f.wantPhases("Queued 1", r)
		f.advertise("paris", "8", "8Gi")
		f.wantPhases("Queued 1", r) // paris has just refused the reservation, so the broker does not ask paris again yet
		f.advertise("berlin", "8", "8Gi")
		f.wantPhases("Reserved berlin", r)
		if got := f.get("rome", r.Name); len(got.Placements) != 2 || !got.ReservedAt.Equal(r.ReservedAt) {
			t.Errorf("placements %+v, reserved at %s, %s the first time", got.Placements, got.ReservedAt, r.ReservedAt)
		}
	})
}

func TestWaitingRequestReturnsToProviderThatAnsweredLate(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		r := f.reserve("rome", "request-1", waiting("4", "1Gi"))
		for _, excluded := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
			time.Sleep(limits.Acknowledge)
			f.wantPhases("Queued 1", r)
			f.mustReport("paris", r, len(f.get("rome", r.Name).Placements), provider, v1.StatusReportStateGone)
			for range excluded / (30 * time.Second) {
				f.wantPhases("Queued 1", r)
				f.advertise("rome", "1", "1Gi")
				f.advertise("paris", "4", "8Gi")
				time.Sleep(30 * time.Second)
			}
			synctest.Wait()
			f.wantPhases("Reserved paris", r)
		}
	})
}

func TestSearchReturnsToProviderThatRecovered(t *testing.T) {
	for name, tt := range map[string]struct {
		try  []string // providers in the order of the placements, whose nodes do not become Ready
		want string
	}{
		"the first one":                  {[]string{"berlin", "paris"}, "Active berlin"},
		"the last one":                   {[]string{"berlin", "paris", "berlin"}, "Active paris"},
		"after two failures":             {[]string{"berlin", "paris", "berlin", "paris"}, "Active berlin"},
		"not if each failed three times": {[]string{"berlin", "paris", "berlin", "paris", "berlin", "paris"}, "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				advertise := func() {
					f.advertise("rome", "1", "1Gi")
					f.advertise("paris", "8", "16Gi")
					f.advertise("berlin", "4", "8Gi")
				}
				advertise()
				r := f.reserve("rome", "request-1", request("4", "1Gi"))
				for i, id := range tt.try {
					if got := target(f.get("rome", r.Name)); got != id {
						t.Fatalf("placement %d is on %q, want %s", i+1, got, id)
					}
					f.mustReport(id, r, i+1, provider, v1.StatusReportStateAcknowledged)
					for range 4 {
						advertise()
						time.Sleep(30 * time.Second)
					}
					synctest.Wait()
					f.mustReport(id, r, i+1, provider, v1.StatusReportStateGone)
				}
				if tt.want == "Failed" {
					if got := f.get("rome", r.Name); got.EndReason != v1.ReservationEndReasonFailed || len(got.Placements) != len(tt.try) {
						t.Errorf("ended as %q, placements %+v", got.EndReason, got.Placements)
					}
					return
				}
				number := len(tt.try) + 1
				f.mustReport(target(f.get("rome", r.Name)), r, number, provider, v1.StatusReportStateAcknowledged)
				f.mustReport("rome", r, number, consumer, v1.StatusReportStateReady)
				f.wantPhases(tt.want, r)
			})
		})
	}
}

func TestReservationObjectQueues(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "4", "8Gi")
		holder := f.reserve("berlin", "request-1", request("4", "1Gi"))
		q := requests.Request{Request: ledger.Request{
			Requester: "team", Amounts: quantity.Amounts{"cpu": 4000, "memory": 1 << 30}, Queue: true,
			Object: &ledger.ObjectRef{Namespace: "default", Name: "mine", UID: "uid-1"},
		}}
		view, err := f.ReserveObject(context.Background(), q)
		if err != nil || view.Phase != ledger.Queued || view.Place.Place != 1 || view.Provider != "" {
			t.Fatalf("%+v, %v", view, err)
		}
		f.giveBack(holder)
		synctest.Wait()
		view, err = f.ObjectReservation(context.Background(), "team", "uid-1")
		if err != nil || view.Phase != ledger.Reserved || view.Place != nil || time.Until(view.Until).Round(time.Second) != time.Hour {
			t.Errorf("%+v, %v", view, err)
		}
	})
}

func TestQueuedRequestIsChanged(t *testing.T) {
	tests := map[string]struct {
		asked int64
		edit  time.Duration
		want  float64 // seconds that remain once the request is granted; 0 if the reservation is renewed instead
	}{
		"to last longer":                     {asked: 600, edit: 20 * time.Minute, want: 1200},
		"to last shorter than it has waited": {asked: 600, edit: time.Minute, want: 60},
		"to last for a time":                 {edit: 10 * time.Minute, want: 600},
		"to last as long as it is renewed":   {asked: 600},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "4", "8Gi")
				holder := f.reserve("berlin", "request-1", request("4", "1Gi"))
				r := f.reserve("rome", "request-1", waiting("4", "1Gi", func(r *v1.ReservationRequest) { r.DurationSeconds = test.asked }))
				time.Sleep(5 * time.Minute)
				changed, err := f.change("rome", r.Name, 2, test.edit)
				if err != nil || changed.Phase != v1.ReservationPhaseQueued || changed.Queue == nil {
					t.Fatalf("%+v, %v", changed, err)
				}
				f.kill()
				f.wantPhases("Queued 1", r)
				f.giveBack(holder)
				f.advertise("paris", "4", "8Gi")
				f.wantPhases("Reserved paris", r)
				left := ptr.Deref(f.get("rome", r.Name).RemainingSeconds, 0)
				// Storing the records takes some milliseconds, so slightly less time may be left.
				if left > test.want || left < test.want-0.1 {
					t.Errorf("%v seconds are left, want %v", left, test.want)
				}
			})
		})
	}
}

func TestReducedQueuedRequestIsServedAtOnce(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "4", "8Gi")
		f.reserve("berlin", "request-1", request("3", "1Gi"))
		r := f.reserve("rome", "request-1", waiting("4", "1Gi", lastingAnHour))
		f.mustResize(r, 2, "2", "1Gi")
		f.wantPhases("Queued 1", r)
		f.mustResize(r, 3, "1", "1Gi")
		f.wantPhases("Reserved paris", r)
	})
}

func TestRequeuedReservationKeepsRemainingDuration(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		r := f.reserve("rome", "request-1", waiting("4", "1Gi", func(r *v1.ReservationRequest) { r.DurationSeconds = 600 }))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		time.Sleep(2 * time.Minute) // the node of the reservation was never Ready
		f.wantPhases("Queued 1", r)
		time.Sleep(15 * time.Minute)
		f.wantPhases("Queued 1", r)
		if _, err := f.change("rome", r.Name, 2, 90*time.Second); fault.ReasonOf(err) != fault.Invalid {
			t.Errorf("to less than has passed already: %v", err)
		}
		if _, err := f.change("rome", r.Name, 3, 20*time.Minute); err != nil {
			t.Fatal(err)
		}
		f.advertise("berlin", "4", "8Gi")
		f.wantPhases("Reserved berlin", r)
		if got := f.get("rome", r.Name); *got.RemainingSeconds != 1080 {
			t.Errorf("%v seconds are left, want 1080", *got.RemainingSeconds)
		}
	})
}

// A place changes with the requests of all clusters, so requesters are told to ask for the first
// places more often than for later ones.
func TestFirstPlacesAreAskedForOften(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "1", "4Gi")
		want := map[int32]float64{1: queueing.FrontRefresh.Seconds(), queueing.FrontPlaces: queueing.FrontRefresh.Seconds(), queueing.FrontPlaces + 1: queueing.Refresh.Seconds()}
		for i := range queueing.FrontPlaces + 1 {
			body := request("8", "16Gi")
			body.QueuePolicy = v1.ReservationRequestQueuePolicyQueue
			r := f.reserve("rome", fmt.Sprintf("request-%d", i), body)
			if seconds, ok := want[r.Queue.Position]; ok && r.RenewSeconds != seconds {
				t.Errorf("place %d is asked for after %v s, want %v", r.Queue.Position, r.RenewSeconds, seconds)
			}
			delete(want, r.Queue.Position)
		}
		if len(want) > 0 {
			t.Errorf("nobody has the places %v", want)
		}
	})
}
