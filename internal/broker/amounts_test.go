package broker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func (f *fleet) resize(id, nameOrKey string, generation int64, cpu, memory string) (*v1.Reservation, error) {
	return f.ChangeReservation(context.Background(), id, nameOrKey, &v1.ReservationChange{
		Generation: generation, DurationSeconds: 3600, Resources: v1.Amounts{"cpu": cpu, "memory": memory},
	})
}

func (f *fleet) mustResize(r *v1.Reservation, generation int64, cpu, memory string) {
	f.t.Helper()
	if _, err := f.resize("rome", r.Name, generation, cpu, memory); err != nil {
		f.t.Fatalf("change %d: %v", generation, err)
	}
}

// answer reports, as the provider id, the answer to a change of the newest placement. The report
// has the reason of a refusal in any case.
func (f *fleet) answer(id string, r *v1.Reservation, change int64, state v1.StatusReportState) error {
	placement := r.Placements[len(r.Placements)-1].Number
	return f.ReportStatus(context.Background(), id, r.Name, &v1.StatusReport{
		Placement: placement, Role: provider, State: state, Change: change, Reason: "InsufficientCapacity", Message: "1 of cpu is free here",
	})
}

func (f *fleet) mustAnswer(id string, r *v1.Reservation, change int64, state v1.StatusReportState) {
	f.t.Helper()
	if err := f.answer(id, r, change, state); err != nil {
		f.t.Fatalf("%s answers change %d: %v", id, change, err)
	}
}

// told returns a cluster's instruction for its newest placement of a reservation in a role; the
// zero Instruction if it has none.
func (f *fleet) told(id string, r *v1.Reservation, role v1.InstructionRole) v1.Instruction {
	f.t.Helper()
	var last v1.Instruction
	for _, in := range f.poll(id, "").Instructions {
		if in.Reservation == r.Name && in.Role == role && in.Placement > last.Placement {
			last = in
		}
	}
	return last
}

// wantAmounts checks what is free at paris, and the CPUs in the instructions of paris (keeps) and
// rome (has).
func (f *fleet) wantAmounts(r *v1.Reservation, when, free, keeps, has string) {
	f.t.Helper()
	if got := f.available("paris"); got != free {
		f.t.Errorf("%s: %s is left at paris, want %s", when, got, free)
	}
	if got := f.told("paris", r, v1.InstructionRoleProvider).Resources["cpu"]; got != keeps {
		f.t.Errorf("%s: paris is to keep %s, want %s", when, got, keeps)
	}
	if got := f.told("rome", r, v1.InstructionRoleConsumer).Resources["cpu"]; got != has {
		f.t.Errorf("%s: rome has %s, want %s", when, got, has)
	}
}

// held advertises rome and paris, which has 16 CPUs and 64 GiB, and returns an Active reservation
// of rome for 4 CPUs and 8 GiB at paris.
func (f *fleet) held() *v1.Reservation {
	f.t.Helper()
	f.advertise("rome", "4", "8Gi")
	f.advertise("paris", "16", "64Gi")
	req := lasting(time.Hour)
	req.Resources = v1.Amounts{"cpu": "4", "memory": "8Gi"}
	return f.carriedOut("rome", f.reserve("rome", "request-1", req))
}

// Each change and each answer is sent twice. The broker is killed and restarted after each of them.
func TestAmountsAreHeldAsTheProviderSays(t *testing.T) {
	tests := map[string]struct {
		cpu, memory string
		answer      v1.StatusReportState
		// held and after are the free amounts of paris before and after it answers. keeps and has
		// are the CPUs in the instructions of paris and rome after the answer.
		held, after, keeps, has string
	}{
		"more, agreed":                        {"6", "8Gi", v1.StatusReportStateAcknowledged, "10 56Gi", "10 56Gi", "6", "6"},
		"more, refused":                       {"6", "8Gi", v1.StatusReportStateRefused, "10 56Gi", "12 56Gi", "4", "4"},
		"less, agreed":                        {"1", "8Gi", v1.StatusReportStateAcknowledged, "12 56Gi", "15 56Gi", "1", "1"},
		"less, refused":                       {"1", "8Gi", v1.StatusReportStateRefused, "12 56Gi", "12 56Gi", "4", "4"},
		"more of one, less of another":        {"6", "4Gi", v1.StatusReportStateAcknowledged, "10 56Gi", "10 60Gi", "6", "6"},
		"more of one, less of another, never": {"6", "4Gi", v1.StatusReportStateRefused, "10 56Gi", "12 56Gi", "4", "4"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.held()
				f.wantAmounts(r, "at first", "12 56Gi", "4", "4")
				for range 2 {
					f.mustResize(r, 2, tc.cpu, tc.memory)
					f.kill()
				}
				f.wantAmounts(r, "unanswered", tc.held, tc.cpu, "4")
				if got := f.get("rome", r.Name); got.Change == nil || got.Change.State != v1.ChangeStateStatePending || got.RenewSeconds == 0 {
					t.Errorf("the change stands at %+v, to be asked about after %v s", got.Change, got.RenewSeconds)
				}
				for range 2 {
					f.mustAnswer("paris", r, 2, tc.answer)
					f.kill()
				}
				f.wantAmounts(r, "answered", tc.after, tc.keeps, tc.has)
				again := lasting(time.Hour)
				again.Resources = v1.Amounts{"cpu": tc.cpu, "memory": tc.memory}
				_, err := f.RequestReservation(context.Background(), "rome", "request-1", again)
				if tc.answer == v1.StatusReportStateAcknowledged {
					if err != nil {
						t.Errorf("asking with what was agreed: %v", err)
					}
					return
				}
				if fault.ReasonOf(err) != fault.KeyReused {
					t.Errorf("asking with what was refused: %v, want %s", err, fault.KeyReused)
				}
				_, err = f.resize("rome", r.Name, 2, tc.cpu, tc.memory)
				if fault.ReasonOf(err) != fault.Conflict || !strings.Contains(err.Error(), "1 of cpu is free here") {
					t.Errorf("the same change again: %v", err)
				}
				f.mustResize(r, 3, "5", "8Gi")
				f.wantAmounts(r, "with another change", "11 56Gi", "5", "4")
			})
		})
	}
}

func TestGrowthStaysWhereTheReservationIs(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.held()
		f.advertise("berlin", "64", "64Gi")
		f.reserve("rome", "request-2", request("8", "8Gi"))
		f.wantAvailable("paris", "12 56Gi")
		_, err := f.resize("rome", r.Name, 2, "17", "8Gi")
		if fault.ReasonOf(err) != fault.Conflict {
			t.Fatalf("got %v", err)
		}
		for _, want := range []string{"paris", "13 more cpu requested", "12 free there", "new request"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		f.wantAmounts(r, "refused", "12 56Gi", "4", "4")
		if got := f.get("rome", r.Name); got.Change != nil {
			t.Errorf("change %+v", got.Change)
		}
		time.Sleep(staleAfter + time.Second)
		if _, err := f.resize("rome", r.Name, 3, "5", "8Gi"); fault.ReasonOf(err) != fault.Conflict || !strings.Contains(err.Error(), "Stale") {
			t.Errorf("a cluster that is silent gives more: %v", err)
		}
		f.mustResize(r, 4, "2", "8Gi")
	})
}

func TestGrowthMeetsTheRequirements(t *testing.T) {
	arm := v1.Labels{"kubernetes.io/arch": "arm64"}
	paris := func(a *v1.Advertisement) {
		a.Cost = v1.Cost{CPUCost: "0.1", MemoryCost: "0", Currency: "EUR"}
		a.NodeShapes = []v1.NodeShape{
			{Count: 1, Free: v1.Amounts{"cpu": "6", "memory": "32Gi"}, NodeLabels: arm},
			{Count: 1, Free: v1.Amounts{"cpu": "6", "memory": "32Gi"}},
		}
	}
	cases := map[string]struct {
		request *v1.ReservationRequest
		cpu     string
		// want is part of the refusal; "" if the change is accepted.
		want string
	}{
		"within the highest price":  {constrained(v1.Constraints{MaxPrice: &v1.Money{Amount: "0.6", Currency: "EUR"}}), "6", ""},
		"above the highest price":   {constrained(v1.Constraints{MaxPrice: &v1.Money{Amount: "0.6", Currency: "EUR"}}), "7", "costs 0.7 EUR an hour, at most 0.6 is accepted"},
		"on the selected nodes":     {constrained(v1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"kubernetes.io/arch": "arm64"}}), "6", ""},
		"beyond the selected nodes": {constrained(v1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{"kubernetes.io/arch": "arm64"}}), "7", "has 4 cpu free on the nodes that the request selects and tolerates, 5 needed"},
		"of pods, in the room on all nodes": {with(func(r *v1.ReservationRequest) {
			r.PodShapes = []v1.PodShape{{Count: 1, Resources: v1.Amounts{"cpu": "2", "memory": "1Gi"}}}
		}), "12", ""},
		"of pods, beyond the nodes": {with(func(r *v1.ReservationRequest) {
			r.PodShapes = []v1.PodShape{{Count: 1, Resources: v1.Amounts{"cpu": "2", "memory": "1Gi"}}}
		}), "13", "has 10 cpu free on the nodes that the request selects and tolerates, 11 needed"},
		"to less, above the highest price": {constrained(v1.Constraints{MaxPrice: &v1.Money{Amount: "0.2", Currency: "EUR"}}), "1", ""},
		"without requirements":             {with(func(*v1.ReservationRequest) {}), "13", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "16", "64Gi", paris)
				tc.request.DurationSeconds, tc.request.Resources = 3600, v1.Amounts{"cpu": "2", "memory": "1Gi"}
				r := f.carriedOut("rome", f.reserve("rome", "request-1", tc.request))
				if tc.cpu == "1" {
					f.advertise("paris", "16", "64Gi", paris, func(a *v1.Advertisement) { a.Cost.CPUCost = "9" })
				}
				_, err := f.resize("rome", r.Name, 2, tc.cpu, "1Gi")
				if tc.want == "" && err != nil || tc.want != "" && (fault.ReasonOf(err) != fault.Conflict || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			})
		})
	}
}

// Until paris answers the change, the pods of the reservation still occupy its nodes.
func TestGrowingPodsKeepTheirNodes(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "12", "64Gi", nodes(v1.NodeShape{Count: 3, Free: v1.Amounts{"cpu": "4", "memory": "16Gi"}}))
		pods := func(count int32, cpu string) *v1.ReservationRequest {
			return with(func(r *v1.ReservationRequest) {
				r.DurationSeconds, r.Resources, r.PodShapes = 3600, nil, []v1.PodShape{{Count: count, Resources: v1.Amounts{"cpu": cpu, "memory": "1Gi"}}}
			})
		}
		r := f.carriedOut("rome", f.reserve("rome", "request-1", pods(3, "3")))
		if _, err := f.resize("rome", r.Name, 2, "6", "3Gi"); fault.ReasonOf(err) != fault.Invalid { // CapacityBuffers expect this
			t.Errorf("shrunk below its pods: %v, want %s", err, fault.Invalid)
		}
		f.mustResize(r, 2, "10", "3Gi")
		f.wantRefusal("rome", "request-2", pods(1, "2"), fault.NoCandidate)
		f.reserve("rome", "request-3", pods(1, "1"))
	})
}

func TestGrowthTakesNothingThatIsKeptForAnother(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(context.Background(), preempting())
		f.advertise("paris", "8", "64Gi")
		r := f.carriedOut("rome", f.reserve("rome", "request-1", request("2", "1Gi")))
		victim := f.reserve("berlin", "a", asked("4"))
		waits := f.reserve("berlin", "b", waiting("5", "1Gi", priority(10)))
		f.wantNotice("a", map[string]*v1.Reservation{"a": victim})
		_, err := f.resize("rome", r.Name, 2, "4", "1Gi")
		if fault.ReasonOf(err) != fault.Conflict || !strings.Contains(err.Error(), "1 free there") {
			t.Errorf("with what is kept: %v", err)
		}
		f.mustResize(r, 3, "3", "1Gi")
		time.Sleep(grace)
		synctest.Wait()
		f.mustReport("paris", victim, 1, provider, v1.StatusReportStateGone)
		f.wantPhases("Reserved paris", waits)
	})
}

// A restarted broker serves no waiting request before it has heard from all clusters. Until then
// free capacity may belong to a waiting request, so reservations cannot grow.
func TestGrowthDoesNotJumpQueue(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.held()
		first := f.reserve("berlin", "request-1", waiting("16", "1Gi"))
		paris, rome := f.poll("paris", "").Cursor, f.poll("rome", "").Cursor
		time.Sleep(16 * time.Second) // now the journal could have been restored
		f.kill()
		recovering := func(when string) {
			t.Helper()
			if _, err := f.resize("rome", r.Name, 2, "5", "8Gi"); fault.ReasonOf(err) != fault.Recovering {
				t.Errorf("%s: %v, want %s", when, err, fault.Recovering)
			}
		}
		recovering("before its provider was heard")
		f.Witness("paris", paris)
		f.advertise("paris", "20", "64Gi")
		recovering("before all were heard")
		f.wantPhases("Queued 1", first)
		f.Witness("rome", rome)
		f.advertise("rome", "4", "8Gi")
		f.wantPhases("Reserved paris", first)
		if _, err := f.resize("rome", r.Name, 2, "5", "8Gi"); fault.ReasonOf(err) != fault.Conflict {
			t.Errorf("after who waited: %v, want %s", err, fault.Conflict)
		}
	})
}

func TestAmountsChangeInEachPhase(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", lasting(time.Hour))
		if _, err := f.resize("rome", r.Name, 2, "3", "4Gi"); fault.ReasonOf(err) != fault.Awaiting {
			t.Errorf("before it is acknowledged: %v, want %s", err, fault.Awaiting)
		}
		f.carriedOut("rome", r)
		for who, want := range map[string]fault.Reason{"paris": fault.Forbidden, "oslo": fault.NotFound} {
			if _, err := f.resize(who, r.Name, 2, "3", "4Gi"); fault.ReasonOf(err) != want {
				t.Errorf("changed by %s: %v, want %s", who, err, want)
			}
		}
		if _, err := f.resize("rome", r.Name, 2, "0", "0"); fault.ReasonOf(err) != fault.Invalid {
			t.Errorf("to nothing: %v", err)
		}
		f.mustResize(r, 2, "3", "4Gi")
		if _, err := f.resize("rome", r.Name, 3, "1", "4Gi"); fault.ReasonOf(err) != fault.Awaiting {
			t.Errorf("before the first is answered: %v, want %s", err, fault.Awaiting)
		}
		// A change of the duration needs no answer of the provider, and the refusal of the amounts
		// does not undo it.
		if _, err := f.change("rome", r.Name, 3, 2*time.Hour); err != nil {
			t.Errorf("duration: %v", err)
		}
		f.mustAnswer("paris", r, 2, v1.StatusReportStateRefused)
		asked := lasting(2 * time.Hour)
		if got := f.reserve("rome", "request-1", asked); got.Resources["cpu"] != "2" || *got.RemainingSeconds != 7200 {
			t.Errorf("got %v for %v s", got.Resources, *got.RemainingSeconds)
		}
		f.mustResize(r, 4, "1", "4Gi")
		f.mustAnswer("paris", r, 4, v1.StatusReportStateAcknowledged)
		if err := f.answer("paris", r, 9, v1.StatusReportStateAcknowledged); fault.ReasonOf(err) != fault.Conflict {
			t.Errorf("an answer to no change: %v", err)
		}
		f.release("rome", r.Name)
		if _, err := f.resize("rome", r.Name, 5, "1", "1Gi"); fault.ReasonOf(err) != fault.Released {
			t.Errorf("while it is released: %v", err)
		}
	})
}

// If a provider gives a placement up before it answered a change, the larger of both amounts is
// held there until the placement is gone.
func TestUnansweredChange(t *testing.T) {
	tests := map[string]struct {
		cpu string
		// paris and berlin are the free amounts at these clusters after the reservation has moved
		// from paris to berlin.
		paris, berlin string
		state         v1.ChangeStateState
	}{
		"more is dropped":      {"6", "10 56Gi", "60 56Gi", v1.ChangeStateStateRefused},
		"less is in force now": {"1", "12 56Gi", "63 56Gi", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.held()
				f.advertise("berlin", "64", "64Gi")
				f.mustResize(r, 2, tc.cpu, "8Gi")
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
				f.kill()
				if got := f.available("paris") + ", " + f.available("berlin"); got != tc.paris+", "+tc.berlin {
					t.Errorf("%s is left, want %s, %s", got, tc.paris, tc.berlin)
				}
				got := f.get("rome", r.Name)
				if state := (got.Change); tc.state == "" && state != nil || tc.state != "" && (state == nil || state.State != tc.state) {
					t.Errorf("change %+v, want %q", state, tc.state)
				}
				if err := f.answer("paris", r, 2, v1.StatusReportStateAcknowledged); fault.ReasonOf(err) != fault.Conflict {
					t.Errorf("a late answer: %v", err)
				}
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
				f.wantAvailable("paris", "16 64Gi")
			})
		})
	}
}

func TestUnansweredChangeHoldsLargerAmountsUntilGone(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.held()
		f.mustResize(r, 2, "6", "8Gi")
		f.release("rome", r.Name)
		f.kill()
		f.wantAvailable("paris", "10 56Gi")
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		f.wantAvailable("paris", "16 64Gi")
	})
}

// A provider without an agent is not asked, so a change applies at once.
func TestAmountsAtAProviderWithoutAnAgent(t *testing.T) {
	inFleet(t, func(f *fleet) {
		sixteen := request("16", "64Gi")
		offered, err := requests.Read("paris", "unused", sixteen)
		runtest.Check(t, err)
		offer := &ledger.Offer{ClusterID: "paris", Capacity: offered.Amounts, Allocatable: offered.Amounts, Source: &ledger.Manifest{Digest: "1"}}
		runtest.Check(t, f.OfferManifest(context.Background(), offer))
		asked, view := f.reserveObject(lasting(time.Hour))
		for i, step := range []struct {
			millicores int64
			left       string
		}{{5000, "11 60Gi"}, {1000, "15 60Gi"}} {
			amounts := asked.Amounts.Clone()
			amounts["cpu"] = step.millicores
			changed, err := f.ChangeObject(context.Background(), view.Name, "", int64(2+i), time.Hour, amounts)
			runtest.Check(t, err)
			if got := f.available("paris"); got != step.left || changed.Pending != nil {
				t.Errorf("%s is left, want %s; pending %+v", got, step.left, changed.Pending)
			}
		}
	})
}

// If the journal has lost a change, the amounts that the provider announces are in force.
func TestLostChangeIsRestoredFromAnnouncements(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.held()
		old := f.server.Clone()
		f.mustResize(r, 2, "6", "8Gi")
		f.mustAnswer("paris", r, 2, v1.StatusReportStateAcknowledged)
		cursor := f.poll("paris", "").Cursor
		f.restore(old)
		f.poll("paris", cursor)
		keeps := provided(r, "rome", func(p *v1.ProvidedPlacement) { p.Resources = v1.Amounts{"cpu": "6", "memory": "8Gi"} })
		f.advertise("paris", "16", "64Gi")
		f.announce("paris", keeps)
		asked := lasting(time.Hour)
		asked.Resources = v1.Amounts{"cpu": "6", "memory": "8Gi"}
		f.announce("rome", nil, wanted(r, "request-1", asked))
		f.wantAmounts(r, "announced", "10 56Gi", "6", "6")
		// Asking with the amounts before the change is refused. Only another change brings them
		// back.
		was := lasting(time.Hour)
		was.Resources = v1.Amounts{"cpu": "4", "memory": "8Gi"}
		f.wantRefusal("rome", "request-1", was, fault.KeyReused)
		f.mustResize(r, 3, "4", "8Gi")
		f.mustAnswer("paris", r, 3, v1.StatusReportStateAcknowledged)
		f.wantAmounts(r, "changed again", "12 56Gi", "4", "4")
	})
}
