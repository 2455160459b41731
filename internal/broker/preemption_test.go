package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// grace is the notice that victims get. It is shorter than the time until a cluster is stale.
const grace = time.Minute

// preempting returns a configuration in which lower priorities make room.
func preempting(change ...func(*settings.Config)) settings.Config {
	c := settings.Default()
	c.Preemption = queueing.PreemptionConfig{LowerPriority: true, Grace: grace}
	for _, edit := range change {
		edit(&c)
	}
	return c
}

func on(clusterID string) func(*v1.ReservationRequest) {
	return func(r *v1.ReservationRequest) { r.TargetClusterID = clusterID }
}

// asked returns a request for CPUs and 1 GiB that does not wait in the queue.
func asked(cpu string, change ...func(*v1.ReservationRequest)) *v1.ReservationRequest {
	req := request(cpu, "1Gi")
	for _, c := range change {
		c(req)
	}
	return req
}

// offerByHand offers a cluster without an agent, in CPUs and GiB.
func (f *fleet) offerByHand(id string, cpu, memory int64) {
	f.t.Helper()
	amounts := quantity.Amounts{"cpu": cpu * 1000, "memory": memory << 30}
	offer := &ledger.Offer{ClusterID: id, Capacity: amounts, Allocatable: amounts, Source: &ledger.Manifest{ObjectRef: ledger.ObjectRef{Name: id}, Digest: fmt.Sprint(cpu, memory)}}
	runtest.Check(f.t, f.OfferManifest(context.Background(), offer))
}

// runs acknowledges a reservation and makes its node Ready.
func (f *fleet) runs(r *v1.Reservation) *v1.Reservation {
	f.t.Helper()
	p := r.Placements[len(r.Placements)-1]
	f.mustReport(p.ClusterID, r, int(p.Number), provider, v1.StatusReportStateAcknowledged)
	f.mustReport(r.RequesterID, r, int(p.Number), consumer, v1.StatusReportStateReady)
	return r
}

// wantNotice checks which of the reservations a to e have a notice. want has their names in order.
func (f *fleet) wantNotice(want string, all map[string]*v1.Reservation) {
	f.t.Helper()
	synctest.Wait()
	var told []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if r := all[name]; r != nil && f.get(r.RequesterID, r.Name).Notice != nil {
			told = append(told, name)
		}
	}
	if got := strings.Join(told, " "); got != want {
		f.t.Errorf("%q have notice, want %q", got, want)
	}
}

func TestVictimsOfPreemption(t *testing.T) {
	tests := map[string]struct {
		config  settings.Config
		holders map[string]*v1.ReservationRequest // by name; they reserve in the order of their names
		asks    *v1.ReservationRequest
		want    string
	}{
		"nobody unless it is switched on": {
			config: settings.Default(), holders: map[string]*v1.ReservationRequest{"a": asked("8")}, asks: waiting("8", "1Gi", priority(10)),
		},
		"nobody of the same priority": {
			config: preempting(), holders: map[string]*v1.ReservationRequest{"a": asked("8", priority(10))}, asks: waiting("8", "1Gi", priority(10)),
		},
		"nobody where a limit makes the priorities the same": {
			config:  preempting(func(c *settings.Config) { c.PriorityLimits.Of = map[string]int32{"rome": 5} }),
			holders: map[string]*v1.ReservationRequest{"a": asked("8", priority(5))}, asks: waiting("8", "1Gi", priority(10)),
		},
		"nobody where all of them are not enough": {
			config:  preempting(),
			holders: map[string]*v1.ReservationRequest{"a": asked("3"), "b": asked("5", priority(10))}, asks: waiting("4", "1Gi", priority(10)),
		},
		"a lower priority": {
			config: preempting(), holders: map[string]*v1.ReservationRequest{"a": asked("8", priority(9))}, asks: waiting("8", "1Gi", priority(10)), want: "a",
		},
		"the lowest of them": {
			config:  preempting(),
			holders: map[string]*v1.ReservationRequest{"a": asked("4", priority(2)), "b": asked("4", priority(1))},
			asks:    waiting("4", "1Gi", priority(10)), want: "b",
		},
		"one rather than two lower ones": {
			config:  preempting(),
			holders: map[string]*v1.ReservationRequest{"a": asked("2"), "b": asked("4", priority(9)), "c": asked("2")},
			asks:    waiting("4", "1Gi", priority(10)), want: "b",
		},
		"the youngest of one priority": {
			config:  preempting(),
			holders: map[string]*v1.ReservationRequest{"a": asked("4"), "b": asked("4")}, asks: waiting("4", "1Gi", priority(10)), want: "b",
		},
		"as many as it takes": {
			config:  preempting(),
			holders: map[string]*v1.ReservationRequest{"a": asked("4"), "b": asked("4")}, asks: waiting("6", "1Gi", priority(10)), want: "a b",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.SetConfig(context.Background(), test.config)
				f.advertise("paris", "8", "64Gi")
				all := map[string]*v1.Reservation{}
				for _, name := range []string{"a", "b", "c"} {
					if req := test.holders[name]; req != nil {
						all[name] = f.reserve("berlin", name, req)
						time.Sleep(time.Millisecond)
					}
				}
				r := f.reserve("rome", "request", test.asks)
				f.wantNotice(test.want, all)
				reason := v1.QueuePlaceReasonNoCandidate
				if test.want != "" {
					reason = v1.QueuePlaceReasonPreempting
				}
				if r.Phase != v1.ReservationPhaseQueued || r.Queue.Reason != reason {
					t.Errorf("%s because of %+v, want %s", r.Phase, r.Queue, reason)
				}
			})
		})
	}
}

func TestRequestWithoutQueueingJumpsNoQueue(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("paris", "4", "8Gi")
		a := f.reserve("berlin", "a", asked("4"))
		f.wantRefusal("rome", "request", asked("4", priority(10)), fault.NoCandidate)
		f.wantNotice("", map[string]*v1.Reservation{"a": a})
	})
}

// The test follows a preemption from the notice to the grant. At no time is more promised than
// available.
func TestPlaceIsReusedOnlyAfterItsHolderIsGone(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("rome", "1", "1Gi")
		f.advertise("berlin", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		victim := f.runs(f.reserve("berlin", "low", waiting("3", "1Gi")))
		before, err := f.FetchInstructions(context.Background(), "berlin", "", 0)
		runtest.Check(t, err)
		r := f.reserve("rome", "high", waiting("4", "4Gi", priority(10)))
		noted := time.Now()

		told, err := f.FetchInstructions(context.Background(), "berlin", before.Cursor, 0)
		if err != nil || len(told.Instructions) != 1 || told.Instructions[0].Notice == nil {
			t.Fatalf("the requester hears %+v, %v", told, err)
		}
		notice := told.Instructions[0].Notice
		if notice.RemainingSeconds != grace.Seconds() || notice.Priority != 10 || told.Instructions[0].State != v1.InstructionStateHold {
			t.Errorf("the requester hears %+v", told.Instructions[0])
		}
		if strings.Contains(notice.Message, "rome") || strings.Contains(notice.Message, r.Name) {
			t.Errorf("%q names the other one", notice.Message)
		}
		f.wantPhases("Active paris, Queued 1", victim, r)

		// Capacity that victims free on paris is reserved for their preemptor.
		late := func() {
			f.wantRefusal("berlin", fmt.Sprint(time.Now()), asked("1", priority(100), on("paris")), fault.NoCandidate)
		}
		late()
		time.Sleep(time.Until(noted.Add(grace - time.Nanosecond)))
		f.wantPhases("Active paris, Queued 1", victim, r)
		for _, id := range []string{"rome", "berlin"} {
			f.advertise(id, "1", "1Gi")
		}
		f.advertise("paris", "4", "8Gi")
		time.Sleep(time.Nanosecond)
		f.wantPhases("Queued 2, Queued 1", victim, r)
		got := f.get("berlin", victim.Name)
		if got.Queue.Reason != v1.QueuePlaceReasonPreempted || got.Placements[0].State != v1.PlacementStateWithdrawing || got.Placements[0].Reason != "Preempted" {
			t.Errorf("the victim: %+v, %+v", got.Queue, got.Placements)
		}
		late()
		if free := f.available("paris"); free != "1 7Gi" {
			t.Errorf("%s of paris are free before it has confirmed", free)
		}

		f.mustReport("berlin", victim, 1, consumer, v1.StatusReportStateGone)
		f.wantPhases("Queued 2, Queued 1", victim, r)
		f.mustReport("paris", victim, 1, provider, v1.StatusReportStateGone)
		f.wantPhases("Queued 1, Reserved paris", victim, r)
		if free := f.available("paris"); free != "0 4Gi" {
			t.Errorf("%s of paris are free after all", free)
		}

		// The victim may return to its former provider.
		f.giveBack(r)
		f.wantPhases("Reserved paris", victim)
		if got := f.get("berlin", victim.Name); len(got.Placements) != 2 || got.Notice != nil {
			t.Errorf("the victim: %+v, %+v", got.Placements, got.Notice)
		}
	})
}

func TestVictimIsMovedQueuedOrEnded(t *testing.T) {
	tests := map[string]struct {
		victim    *v1.ReservationRequest
		elsewhere bool
		want      string
		reason    v1.ReservationEndReason
	}{
		"to another cluster that has room":   {victim: asked("4"), elsewhere: true, want: "Reserved oslo"},
		"back into the queue if it may wait": {victim: waiting("4", "1Gi"), want: "Queued 2"},
		"nowhere if it may not":              {victim: asked("4"), want: "Releasing", reason: v1.ReservationEndReasonPreempted},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.SetConfig(context.Background(), preempting())
				f.advertise("berlin", "1", "1Gi")
				f.advertise("paris", "4", "8Gi")
				victim := f.runs(f.reserve("berlin", "low", test.victim))
				r := f.reserve("rome", "high", waiting("4", "1Gi", priority(10), on("paris")))
				f.advertise("paris", "4", "8Gi")
				if test.elsewhere {
					f.advertise("oslo", "4", "8Gi")
				}
				time.Sleep(grace)
				f.wantPhases(test.want+", Queued 1", victim, r)
				got := f.get("berlin", victim.Name)
				if got.EndReason != test.reason {
					t.Errorf("it ends because of %q: %s", got.EndReason, got.Message)
				}
				if test.reason != "" && !strings.Contains(got.Message, "higher priority") {
					t.Errorf("%q does not say why", got.Message)
				}
				f.mustReport("paris", victim, 1, provider, v1.StatusReportStateGone)
				synctest.Wait()
				if now := f.get("rome", r.Name); now.Phase != v1.ReservationPhaseReserved {
					t.Errorf("%s: %s", now.Phase, now.Message)
				}
			})
		})
	}
}

func TestNoticeIsWithdrawn(t *testing.T) {
	tests := map[string]struct {
		happens func(f *fleet, r *v1.Reservation)
		want    string
	}{
		"when a place is found elsewhere": {
			happens: func(f *fleet, _ *v1.Reservation) { f.advertise("oslo", "8", "8Gi") }, want: "Reserved oslo",
		},
		"when the same cluster grows": {
			happens: func(f *fleet, _ *v1.Reservation) { f.advertise("paris", "8", "64Gi") }, want: "Reserved paris",
		},
		"when the request is given back": {
			happens: func(f *fleet, r *v1.Reservation) {
				f.release("rome", r.Name)
			},
			want: "Released",
		},
		"when it has waited long enough": {
			happens: func(*fleet, *v1.Reservation) { time.Sleep(30 * time.Second) }, want: "Failed",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.SetConfig(context.Background(), preempting())
				f.advertise("berlin", "1", "1Gi")
				f.advertise("paris", "4", "8Gi")
				victim := f.runs(f.reserve("berlin", "low", asked("4")))
				r := f.reserve("rome", "high", waiting("4", "1Gi", priority(10), patient(30)))
				all := map[string]*v1.Reservation{"a": victim}
				f.wantNotice("a", all)
				test.happens(f, r)
				f.wantNotice("", all)
				f.wantPhases("Active paris, "+test.want, victim, r)
				time.Sleep(2 * grace)
				f.wantPhases("Active paris", victim)
			})
		})
	}
}

// Preemption is tried again whenever it may help a waiting request.
func TestVictimsAreFoundLater(t *testing.T) {
	var equal *v1.Reservation
	tests := map[string]struct {
		config  settings.Config
		before  func(f *fleet)
		happens func(f *fleet)
	}{
		"when it is switched on": {
			config:  settings.Default(),
			before:  func(f *fleet) { f.reserve("berlin", "a", asked("4", on("paris"))) },
			happens: func(f *fleet) { f.SetConfig(context.Background(), preempting()) },
		},
		"when a limit is lowered": {
			config: preempting(),
			before: func(f *fleet) { f.reserve("berlin", "a", asked("4", on("paris"), priority(50))) },
			happens: func(f *fleet) {
				f.SetConfig(context.Background(), preempting(func(c *settings.Config) { c.PriorityLimits.Of = map[string]int32{"berlin": 1} }))
			},
		},
		"when a cluster is admitted": {
			config: preempting(),
			before: func(f *fleet) {
				f.reserve("berlin", "a", asked("4", on("paris")))
				f.SetConfig(context.Background(), preempting(func(c *settings.Config) {
					c.Access = access.PolicyOf(&brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"paris"}})
				}))
			},
			happens: func(f *fleet) { f.SetConfig(context.Background(), preempting()) },
		},
		"when one of its own priority leaves": {
			config: preempting(),
			before: func(f *fleet) {
				equal = f.reserve("berlin", "equal", asked("2", on("paris"), priority(10)))
				f.reserve("berlin", "a", asked("2", on("paris")))
			},
			happens: func(f *fleet) { f.giveBack(equal) },
		},
		"when a cluster grows": {
			config: preempting(),
			before: func(f *fleet) {
				f.advertise("paris", "3", "8Gi")
				f.reserve("berlin", "a", asked("3", on("paris")))
			},
			happens: func(f *fleet) { f.advertise("paris", "4", "8Gi") },
		},
		"when a silent cluster speaks again": {
			config: preempting(),
			before: func(f *fleet) {
				a := f.reserve("berlin", "a", asked("4", on("paris")))
				f.mustReport("paris", a, 1, provider, v1.StatusReportStateAcknowledged)
				time.Sleep(staleAfter)
			},
			happens: func(f *fleet) { f.advertise("paris", "4", "8Gi") },
		},
		"when another request needs their place no longer": {
			config: preempting(),
			before: func(f *fleet) {
				f.reserve("berlin", "a", asked("4", on("paris")))
				f.reserve("berlin", "first", waiting("4", "1Gi", priority(20)))
			},
			happens: func(f *fleet) {
				f.release("berlin", "first")
			},
		},
		"after a crash": {
			config: preempting(),
			before: func(f *fleet) {
				f.SetConfig(context.Background(), settings.Default())
				f.reserve("berlin", "a", asked("4", on("paris")))
			},
			happens: func(f *fleet) {
				f.kill()
				f.advertise("paris", "4", "8Gi")
				f.SetConfig(context.Background(), preempting())
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.SetConfig(context.Background(), test.config)
				f.advertise("paris", "4", "8Gi")
				test.before(f)
				synctest.Wait()
				r := f.reserve("rome", "request", waiting("4", "1Gi", priority(10)))
				if r.Phase != v1.ReservationPhaseQueued || r.Queue.Reason != v1.QueuePlaceReasonNoCandidate {
					t.Fatalf("before: %s, %+v", r.Phase, r.Queue)
				}
				test.happens(f)
				synctest.Wait()
				if now := f.get("rome", r.Name); now.Queue == nil || now.Queue.Reason != v1.QueuePlaceReasonPreempting {
					t.Errorf("%s, %+v: %s", now.Phase, now.Queue, now.Message)
				}
			})
		})
	}
}

// The request that is first in the queue finds its victims first. The next request does not get the
// same victim, and the only other reservation has the priority of that request.
func TestVictimsAreFoundInOrder(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "64Gi")
		all := map[string]*v1.Reservation{
			"a": f.reserve("berlin", "a", asked("4", priority(5))), "b": f.reserve("berlin", "b", asked("4")),
		}
		later := f.reserve("rome", "later", waiting("4", "1Gi", priority(5)))
		first := f.reserve("rome", "first", waiting("4", "1Gi", priority(10)))
		f.SetConfig(context.Background(), preempting())
		f.wantNotice("b", all)
		f.wantPhases("Queued 2, Queued 1", later, first)
		if got := f.get("rome", later.Name).Queue.Reason; got != v1.QueuePlaceReasonNoCandidate {
			t.Errorf("the later one has victims of its own priority: %s", got)
		}
	})
}

// paris needs its victim's capacity itself once the victim has gone, so another victim, on oslo,
// has to make room.
func TestVictimsThatWereNotEnough(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("paris", "4", "8Gi")
		f.advertise("oslo", "4", "8Gi")
		all := map[string]*v1.Reservation{"a": f.reserve("berlin", "a", asked("4", on("oslo")))}
		time.Sleep(time.Second)
		all["b"] = f.reserve("berlin", "b", asked("4", on("paris")))
		r := f.reserve("rome", "request", waiting("4", "1Gi", priority(10)))
		for id, r := range map[string]*v1.Reservation{"oslo": all["a"], "paris": all["b"]} {
			f.mustReport(id, r, 1, provider, v1.StatusReportStateAcknowledged)
		}
		f.wantNotice("b", all)
		busy := func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "2"} }
		f.advertise("oslo", "4", "8Gi")
		f.advertise("paris", "4", "8Gi", busy)
		time.Sleep(grace)
		f.advertise("oslo", "4", "8Gi")
		f.advertise("paris", "4", "8Gi", busy)
		f.wantNotice("", all)
		f.mustReport("paris", all["b"], 1, provider, v1.StatusReportStateGone)
		f.wantNotice("a", all)
		f.kill()
		f.SetConfig(context.Background(), preempting())
		f.wantNotice("a", all)
		f.wantPhases("Queued 1", r)
	})
}

// A cluster that shrank below its promises has no free capacity, neither before nor after a
// victim leaves. Further victims have to make room.
func TestVictimsOnAClusterThatShrank(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.offerByHand("oslo", 4, 2)
		all := map[string]*v1.Reservation{"a": f.reserve("berlin", "a", asked("2"))}
		time.Sleep(time.Second)
		all["b"] = f.reserve("berlin", "b", asked("2"))
		r := f.reserve("rome", "request", waiting("2", "1Gi", priority(10)))
		f.wantNotice("b", all)
		f.offerByHand("oslo", 2, 1)
		time.Sleep(grace)
		f.wantNotice("a", all)
		time.Sleep(grace)
		f.wantPhases("Reserved oslo", r)
	})
}

// When a victim is gone, its usage beyond its hold becomes free as well.
func TestVictimUsesMoreThanItHolds(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("paris", "4", "8Gi")
		v := f.reserve("berlin", "a", asked("1"))
		uses := func(a *v1.Advertisement) {
			a.Usage = []v1.Usage{{Reservation: v.Name, Placement: 1, Used: v1.Amounts{"cpu": "4"}}}
		}
		f.advertise("paris", "4", "8Gi", uses)
		f.runs(v)
		r := f.reserve("rome", "request", waiting("4", "1Gi", priority(10)))
		f.wantNotice("a", map[string]*v1.Reservation{"a": v})
		f.advertise("paris", "4", "8Gi", uses)
		time.Sleep(grace)
		synctest.Wait()
		f.mustReport("paris", v, 1, provider, v1.StatusReportStateGone)
		f.wantPhases("Queued 1", r) // the last advertisement of paris still counts its pods
		f.advertise("paris", "4", "8Gi")
		f.wantPhases("Reserved paris", r)
	})
}

// A reservation of the same priority cannot be preempted. Once it holds less, the only possible
// victim suffices.
func TestVictimsSufficeOnceAnotherHoldsLess(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("paris", "8", "64Gi")
		equal := f.carriedOut("rome", f.reserve("rome", "request-1", asked("5", priority(10))))
		all := map[string]*v1.Reservation{"a": f.reserve("berlin", "a", asked("3"))}
		f.advertise("paris", "5", "64Gi")
		r := f.reserve("berlin", "request", waiting("2", "1Gi", priority(10)))
		f.wantNotice("", all)
		f.mustResize(equal, 2, "3", "1Gi")
		f.mustAnswer("paris", equal, 2, v1.StatusReportStateAcknowledged)
		f.wantNotice("a", all)
		f.wantPhases("Queued 1", r)
	})
}

func TestNoticeSurvivesCrash(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("berlin", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		victim := f.runs(f.reserve("berlin", "low", waiting("4", "1Gi")))
		r := f.reserve("rome", "high", waiting("4", "1Gi", priority(10)))
		time.Sleep(grace / 2)
		f.kill()
		f.SetConfig(context.Background(), preempting())
		left := f.get("berlin", victim.Name).Notice
		if left == nil || left.RemainingSeconds != 30 {
			t.Fatalf("the victim is told %+v", left)
		}
		f.advertise("berlin", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		time.Sleep(grace / 2)
		f.wantPhases("Queued 2, Queued 1", victim, r)
		f.kill()
		f.SetConfig(context.Background(), preempting())
		f.advertise("paris", "4", "8Gi")
		f.wantPhases("Queued 2, Queued 1", victim, r)
		f.mustReport("paris", victim, 1, provider, v1.StatusReportStateGone)
		f.wantPhases("Queued 1, Reserved paris", victim, r)
	})
}

// A cluster that is denied while its request waits gets no grant until it is admitted again.
func TestDeniedClusterIsNotServed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		holder := f.reserve("berlin", "a", asked("4"))
		r := f.reserve("rome", "request", waiting("4", "1Gi"))
		denied := settings.Default()
		denied.Access = access.PolicyOf(&brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"rome"}})
		f.SetConfig(context.Background(), denied)
		f.giveBack(holder)
		f.wantPhases("Queued 1", r)
		f.SetConfig(context.Background(), settings.Default())
		f.wantPhases("Reserved paris", r)
		if diff := cmp.Diff("0 7Gi", f.available("paris")); diff != "" {
			t.Errorf("free of paris (-want +got):\n%s", diff)
		}
	})
}

// The victims of two preemptors have left a cluster that then shrank: the first one is served
// rather than neither.
func TestFirstOfTwoPreemptingRequestsIsServed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("paris", "4", "8Gi")
		victims := []*v1.Reservation{f.reserve("berlin", "a", asked("2")), f.reserve("berlin", "b", asked("2"))}
		for _, v := range victims {
			f.mustReport("paris", v, 1, provider, v1.StatusReportStateAcknowledged)
		}
		later := f.reserve("rome", "later", waiting("2", "1Gi", priority(10)))
		first := f.reserve("rome", "first", waiting("2", "1Gi", priority(20)))
		f.advertise("paris", "4", "8Gi", func(a *v1.Advertisement) { a.Allocated = v1.Amounts{"cpu": "1"} })
		time.Sleep(grace + time.Second)
		for _, v := range victims {
			f.mustReport("paris", v, 1, provider, v1.StatusReportStateGone)
		}
		f.wantPhases("Queued 1, Reserved paris", later, first)
	})
}
