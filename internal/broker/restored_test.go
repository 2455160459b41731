package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// restore stops the broker, restores the API server and starts another broker a minute later.
func (f *fleet) restore(old *journaltest.Server) {
	f.store.Stop()
	f.stop()
	time.Sleep(time.Minute)
	f.server = old
	f.start()
}

// poll returns the instructions of a cluster that shows a cursor.
func (f *fleet) poll(id, cursor string) *v1.InstructionList {
	f.t.Helper()
	list, err := f.FetchInstructions(context.Background(), id, cursor, 0)
	if err != nil {
		f.t.Fatalf("%s polls: %v", id, err)
	}
	return list
}

func (f *fleet) announce(id string, provides []v1.ProvidedPlacement, consumes ...v1.ConsumedReservation) {
	f.t.Helper()
	if err := f.AnnounceHoldings(context.Background(), id, &v1.Holdings{Provides: provides, Consumes: consumes}); err != nil {
		f.t.Fatalf("%s announces: %v", id, err)
	}
}

// wantRefusal requests a reservation, which must be refused for a reason, with an error that contains some texts.
func (f *fleet) wantRefusal(id, key string, req *v1.ReservationRequest, want fault.Reason, texts ...string) fault.Error {
	f.t.Helper()
	_, err := f.RequestReservation(context.Background(), id, key, req)
	if got := fault.ReasonOf(err); got != want {
		f.t.Fatalf("%s asks with %s: %v (%s), want %s", id, key, err, got, want)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			f.t.Errorf("%s asks with %s: got %v, want %q", id, key, err, text)
		}
	}
	no, ok := errors.AsType[*fault.Error](err)
	if !ok {
		f.t.Fatalf("%s asks with %s: %v is no refusal", id, key, err)
	}
	return *no
}

// provided returns the announcement of the last placement of a reservation by its provider.
func provided(r *v1.Reservation, consumer string, edit ...func(*v1.ProvidedPlacement)) []v1.ProvidedPlacement {
	last := r.Placements[len(r.Placements)-1]
	p := v1.ProvidedPlacement{Reservation: r.Name, Placement: last.Number, ConsumerID: consumer, Resources: r.Resources, Acknowledged: true}
	for _, e := range edit {
		e(&p)
	}
	return []v1.ProvidedPlacement{p}
}

// wanted returns the announcement of a reservation by its requester.
func wanted(r *v1.Reservation, key string, req *v1.ReservationRequest) v1.ConsumedReservation {
	last := r.Placements[len(r.Placements)-1]
	return v1.ConsumedReservation{
		Reservation: r.Name, Placement: last.Number, ProviderID: last.ClusterID, Key: key, Request: *req, Ready: true,
	}
}

// carriedOut acknowledges a granted reservation and makes its node Ready.
func (f *fleet) carriedOut(id string, r *v1.Reservation) *v1.Reservation {
	f.t.Helper()
	f.mustReport(target(r), r, len(r.Placements), v1.StatusReportRoleProvider, v1.StatusReportStateAcknowledged)
	f.mustReport(id, r, len(r.Placements), v1.StatusReportRoleConsumer, v1.StatusReportStateReady)
	return r
}

// A broker that ends between the announcement of a provider and that of the requester leaves a reservation that only
// the provider has confirmed. The next one must ask the requester, which cannot know.
func TestRequesterIsAskedAgainAfterTheBrokerEnded(t *testing.T) {
	four := onParis("4", "4Gi")
	inDisaster(t, func(f *fleet, old *journaltest.Server) {
		r := f.carriedOut("rome", f.reserve("rome", "key-0001", four))
		cursor := f.poll("rome", "").Cursor
		f.restore(old)
		f.Witness("rome", cursor)
		f.announce("rome", nil, wanted(r, "key-0001", four))
		f.announce("berlin", nil)
		f.kill()
		f.announce("paris", provided(r, "rome"))
		f.kill()
		repeated := *four
		repeated.Reservation = r.Name
		f.wantRefusal("rome", "key-0001", &repeated, fault.Recovering)
		if list := f.poll("rome", ""); !list.Announce {
			t.Fatal("rome is not asked whether it wants what paris announced in its name")
		}
		f.announce("rome", nil, wanted(r, "key-0001", four))
		if again := f.reserve("rome", "key-0001", &repeated); again.Name != r.Name || again.Phase != v1.ReservationPhaseActive {
			t.Errorf("rome has %s, which is %s, before %s", again.Name, again.Phase, r.Name)
		}
	})
}

// announceUnclaimed restores the API server, and has paris announce a placement of rome that rome does not claim.
func (f *fleet) announceUnclaimed(old *journaltest.Server, name string, placement int32, cpu string) {
	f.t.Helper()
	f.reserve("rome", "key-0001", request("1", "1Gi"))
	cursor := f.poll("rome", "").Cursor
	f.restore(old)
	f.Witness("rome", cursor)
	f.announce("paris", []v1.ProvidedPlacement{{
		Reservation: name, Placement: placement, ConsumerID: "rome", Resources: v1.Amounts{"cpu": cpu}, Acknowledged: true,
	}})
}

// inDisaster runs test on a fleet of rome, paris and berlin. test gets the
// API server's initial state, to restore it.
func inDisaster(t *testing.T, test func(f *fleet, old *journaltest.Server)) {
	t.Helper()
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "8", "16Gi")
		f.advertise("berlin", "4", "8Gi")
		test(f, f.server.Clone())
	})
}

// If the clock was set back, the age of the newest event does not show that nothing is lost.
func TestBrokerWhoseClockWasSetBackListensFirst(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "8", "16Gi")
		f.restartWithClock(func() time.Time { return time.Now().Add(-time.Hour) })
		f.wantRefusal("rome", "key-0001", request("1", "1Gi"), fault.Recovering)
		f.advertise("paris", "8", "16Gi")
		f.reserve("rome", "key-0001", request("1", "1Gi"))
	})
}

func TestRunningPlacementsAreAdoptedAfterARestore(t *testing.T) {
	four := onParis("4", "4Gi")
	for name, order := range map[string][]string{
		"the provider announces first":  {"berlin", "paris", "rome"},
		"the requester announces first": {"rome", "paris", "berlin"},
	} {
		t.Run(name, func(t *testing.T) {
			inDisaster(t, func(f *fleet, old *journaltest.Server) {
				r := f.carriedOut("rome", f.reserve("rome", "key-0001", four))
				cursor := f.poll("rome", "").Cursor
				f.restore(old)

				f.wantRefusal("athens", "key-of-athens", request("2", "1Gi"), fault.Recovering)
				if list := f.poll("rome", cursor); !list.Announce {
					t.Fatal("a cursor from the future is not noticed")
				}
				no := f.wantRefusal("athens", "key-of-athens", request("2", "1Gi"), fault.Recovering)
				if want := "waiting for 3 of 3 clusters"; !strings.Contains(no.Detail, want) || no.RetryAfter == 0 {
					t.Errorf("refused with %q, retry after %s; want %q", no.Detail, no.RetryAfter, want)
				}
				f.wantRefusal("rome", "key-0001", four, fault.Recovering)
				says := map[string]func(){
					"berlin": func() { f.announce("berlin", nil) },
					"paris":  func() { f.announce("paris", provided(r, "rome")) },
					"rome":   func() { f.announce("rome", nil, wanted(r, "key-0001", four)) },
				}
				for _, id := range order {
					if list := f.poll(id, ""); !list.Announce {
						t.Errorf("%s is not asked what it holds", id)
					}
					says[id]()
				}
				got := f.reserve("rome", "key-0001", four)
				if got.Name != r.Name || got.Phase != v1.ReservationPhaseActive || target(got) != "paris" {
					t.Errorf("got %s %s on %s, want %s Active on paris", got.Name, got.Phase, target(got), r.Name)
				}
				if free := f.available("paris"); free != "4 12Gi" {
					t.Errorf("paris has %s left, want 4 12Gi", free)
				}
				f.wantRefusal("athens", "key-of-athens", request("5", "1Gi"), fault.NoCandidate)
				if list := f.poll("rome", cursor); list.Announce || len(list.Instructions) != 1 || list.Instructions[0].Key != "key-0001" {
					t.Errorf("rome is told %+v", list)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if got := f.get("rome", r.Name); got.Phase != v1.ReservationPhaseActive {
					t.Errorf("later it is %s: %s", got.Phase, got.Message)
				}
			})
		})
	}
}

func onParis(cpu, memory string) *v1.ReservationRequest {
	req := request(cpu, memory)
	req.TargetClusterID = "paris"
	return req
}

func TestHoldingsAfterARestoredState(t *testing.T) {
	two, announceAll := onParis("2", "2Gi"), []string{"rome", "paris", "berlin"}
	tests := map[string]struct {
		// before runs before the snapshot of the state that is restored. lost runs after it, so its effects are lost.
		before, lost func(f *fleet) *v1.Reservation
		provides     func(r *v1.Reservation) []v1.ProvidedPlacement
		consumes     func(r *v1.Reservation) []v1.ConsumedReservation
		phase        v1.ReservationPhase
		free         string
		// told is rome's instruction, "" for none.
		told v1.InstructionState
	}{
		"a reservation that was given back stays so": {
			before: func(f *fleet) *v1.Reservation { return f.carriedOut("rome", f.reserve("rome", "key-0001", two)) },
			phase:  v1.ReservationPhaseReleasing, free: "8 16Gi", told: v1.InstructionStateRelease,
		},
		"one that its requester gave back and its provider has not taken down": {
			before:   func(f *fleet) *v1.Reservation { return f.carriedOut("rome", f.reserve("rome", "key-0001", two)) },
			provides: func(r *v1.Reservation) []v1.ProvidedPlacement { return provided(r, "rome") },
			phase:    v1.ReservationPhaseReleasing, free: "6 14Gi", told: v1.InstructionStateRelease,
		},
		"one that went on is untouched": {
			before:   func(f *fleet) *v1.Reservation { return f.carriedOut("rome", f.reserve("rome", "key-0001", two)) },
			provides: func(r *v1.Reservation) []v1.ProvidedPlacement { return provided(r, "rome") },
			consumes: func(r *v1.Reservation) []v1.ConsumedReservation {
				return []v1.ConsumedReservation{wanted(r, "key-0001", two)}
			},
			phase: v1.ReservationPhaseActive, free: "6 14Gi", told: v1.InstructionStateHold,
		},
		"one that was granted, acknowledged and ready since, of which the state knows the grant": {
			before:   func(f *fleet) *v1.Reservation { return f.reserve("rome", "key-0001", two) },
			provides: func(r *v1.Reservation) []v1.ProvidedPlacement { return provided(r, "rome") },
			consumes: func(r *v1.Reservation) []v1.ConsumedReservation {
				return []v1.ConsumedReservation{wanted(r, "key-0001", two)}
			},
			phase: v1.ReservationPhaseActive, free: "6 14Gi", told: v1.InstructionStateHold,
		},
		"a provider's word alone holds its own capacity, and ends": {
			lost:     func(f *fleet) *v1.Reservation { return f.reserve("rome", "key-0001", two) },
			provides: func(r *v1.Reservation) []v1.ProvidedPlacement { return provided(r, "rome") },
			phase:    v1.ReservationPhaseReleasing, free: "6 14Gi",
		},
		"a requester's word alone gives no capacity, and what it made is taken down": {
			lost: func(f *fleet) *v1.Reservation { return f.reserve("rome", "key-0001", two) },
			consumes: func(r *v1.Reservation) []v1.ConsumedReservation {
				return []v1.ConsumedReservation{wanted(r, "key-0001", two)}
			},
			free: "8 16Gi", told: v1.InstructionStateEnded,
		},
		"what is being taken down is held until it is gone": {
			lost: func(f *fleet) *v1.Reservation { return f.reserve("rome", "key-0001", two) },
			provides: func(r *v1.Reservation) []v1.ProvidedPlacement {
				return provided(r, "rome", func(p *v1.ProvidedPlacement) { p.Releasing = true })
			},
			phase: v1.ReservationPhaseReleasing, free: "6 14Gi",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inDisaster(t, func(f *fleet, old *journaltest.Server) {
				var r *v1.Reservation
				if test.before != nil {
					r = test.before(f)
					old = f.server.Clone()
				}
				if test.lost != nil {
					r = test.lost(f)
				}
				f.reserve("athens", "another-key", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}, TargetClusterID: "berlin"})
				cursor := f.poll("rome", "").Cursor
				f.restore(old)
				f.Witness("rome", cursor)
				for _, id := range announceAll {
					var provides []v1.ProvidedPlacement
					if id == "paris" && test.provides != nil {
						provides = test.provides(r)
					}
					var consumes []v1.ConsumedReservation
					if id == "rome" && test.consumes != nil {
						consumes = test.consumes(r)
					}
					f.announce(id, provides, consumes...)
				}
				view, err := f.Reservation(context.Background(), r.Name)
				runtest.Check(t, err)
				phase := v1.ReservationPhase("")
				if view != nil {
					phase = v1.ReservationPhase(view.Phase)
				}
				told := v1.InstructionState("")
				for _, in := range f.poll("rome", "").Instructions {
					if in.Role == v1.InstructionRoleConsumer && in.Reservation == r.Name {
						told = in.State
					}
				}
				if diff := cmp.Diff([]string{string(test.phase), test.free}, []string{string(phase), f.available("paris")}); diff != "" {
					t.Errorf("phase and what is free (-want +got):\n%s", diff)
				}
				if told != test.told {
					t.Errorf("rome is told %q, want %q", told, test.told)
				}
			})
		})
	}
}

// A provider must not create a reservation in another cluster's name.
func TestRequesterGetsNoForeignInstructions(t *testing.T) {
	inDisaster(t, func(f *fleet, old *journaltest.Server) {
		f.announceUnclaimed(old, "res-forged0000", 1, "1")
		for _, in := range f.poll("rome", "").Instructions {
			t.Errorf("rome is told %+v", in)
		}
		err := f.SendMessage(context.Background(), "paris", &v1.Message{To: "rome", Slot: "s", Body: []byte("x")})
		if fault.ReasonOf(err) != fault.Forbidden {
			t.Errorf("paris writes to rome: %v, want Forbidden", err)
		}
	})
}

// A reservation that has lost many providers has placements with high numbers.
func TestAnnouncedPlacementMayHaveAHighNumber(t *testing.T) {
	inDisaster(t, func(f *fleet, old *journaltest.Server) {
		f.announceUnclaimed(old, "res-0123456789", 101, "3")
		f.wantAvailable("paris", "5 16Gi")
	})
}

func TestHoldingsAreRequestedOnlyAfterARestore(t *testing.T) {
	grants := func(f *fleet) { f.reserve("athens", "key-of-athens", request("1", "1Gi")) }
	tests := map[string]func(f *fleet){
		"by a broker that starts again": func(f *fleet) {
			for range 5 {
				f.reserve("rome", "key-0001", request("1", "1Gi"))
				cursor := f.poll("rome", "").Cursor
				f.kill()
				f.Witness("rome", cursor)
				if list := f.poll("rome", cursor); list.Announce {
					f.t.Fatal("rome is asked what it holds")
				}
			}
		},
		"by a cursor that somebody made up": func(f *fleet) {
			told := strings.Split(f.poll("rome", "").Cursor, ":")
			f.Witness("rome", told[0]+":99999:"+told[2])
			f.Witness("rome", "other:1")
			if list := f.poll("rome", ""); !list.Announce {
				f.t.Error("rome is not asked what it holds")
			}
			if list := f.poll("paris", ""); list.Announce {
				f.t.Error("paris is asked what it holds")
			}
		},
		"by a provider that keeps something unknown, but itself": func(f *fleet) {
			f.advertise("berlin", "4", "8Gi", func(a *v1.Advertisement) {
				a.Usage = []v1.Usage{{Reservation: "res-unknown000", Placement: 1, Used: v1.Amounts{"cpu": "1"}}}
			})
			if list := f.poll("berlin", ""); !list.Announce {
				f.t.Error("berlin is not asked what it holds")
			}
			f.announce("berlin", []v1.ProvidedPlacement{{Reservation: "res-unknown000", Placement: 1, ConsumerID: "athens", Resources: v1.Amounts{"cpu": "2"}}})
			if free := f.available("berlin"); free != "2 8Gi" {
				f.t.Errorf("berlin has %s left, want 2 8Gi", free)
			}
		},
		"by a requester that has a reservation nobody knows": func(f *fleet) {
			req := request("1", "1Gi")
			req.Reservation = "res-unknown000"
			f.wantRefusal("rome", "key-0001", req, fault.Recovering)
			f.announce("rome", nil, v1.ConsumedReservation{Reservation: "res-unknown000", Placement: 1, ProviderID: "paris", Key: "key-0001", Request: *req})
			f.reserve("rome", "key-0001", req)
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inDisaster(t, func(f *fleet, _ *journaltest.Server) {
				test(f)
				grants(f)
			})
		})
	}
}

// A broker that keeps running during a restore notices it without a cluster's cursor: it
// remembers its own records.
func TestRunningBrokerNoticesRestoredState(t *testing.T) {
	inDisaster(t, func(f *fleet, old *journaltest.Server) {
		f.reserve("rome", "key-0001", request("1", "1Gi"))
		for _, obj := range f.server.Objects() {
			f.server.Tamper(obj.Name, func(o *journal.Object) bool {
				for _, was := range old.Objects() {
					if was.Name == o.Name {
						o.Data, o.Binary = was.Data, was.Binary
						return true
					}
				}
				return false
			})
		}
		// The next append detects the restore.
		f.wantRefusal("rome", "key-0002", request("1", "1Gi"), fault.Unavailable)
		time.Sleep(2 * reopenDelay)
		synctest.Wait()
		f.wantRefusal("athens", "key-0003", request("1", "1Gi"), fault.Recovering)
	})
}

func TestRecoverySurvivesRestart(t *testing.T) {
	four := onParis("4", "4Gi")
	inDisaster(t, func(f *fleet, old *journaltest.Server) {
		r := f.carriedOut("rome", f.reserve("rome", "key-0001", four))
		cursor := f.poll("rome", "").Cursor
		f.restore(old)
		f.Witness("rome", cursor)
		f.announce("rome", nil, wanted(r, "key-0001", four))
		f.kill()
		// rome's announcement was only in memory, so rome has to announce again.
		for _, id := range []string{"rome", "paris", "berlin"} {
			if list := f.poll(id, ""); !list.Announce {
				t.Errorf("%s is not asked what it holds", id)
			}
		}
		f.announce("paris", provided(r, "rome"))
		f.kill()
		f.announce("rome", nil, wanted(r, "key-0001", four))
		if got := f.reserve("rome", "key-0001", four); got.Name != r.Name || got.Phase != v1.ReservationPhaseActive {
			t.Errorf("got %s %s, want %s Active", got.Name, got.Phase, r.Name)
		}
		f.wantRefusal("athens", "key-of-athens", request("5", "1Gi"), fault.Recovering)
		// berlin never returns, and must not block the others forever.
		time.Sleep(recovery.Grace)
		for _, id := range []string{"rome", "paris"} {
			f.advertise(id, map[string]string{"rome": "1", "paris": "8"}[id], "16Gi")
		}
		f.wantRefusal("athens", "key-of-athens", request("5", "1Gi"), fault.NoCandidate)
		if got := f.reserve("athens", "another-key", request("1", "1Gi")); target(got) == "berlin" {
			t.Error("granted on berlin, which did not announce what it holds")
		}
		if view, err := f.Cluster(context.Background(), "berlin"); err != nil || view.Awaited == "" {
			t.Errorf("berlin is not awaited: %+v, %v", view, err)
		}
	})
}
