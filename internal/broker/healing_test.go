package broker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// pass lets a time d pass, in which all clusters except the silent one advertise.
func (f *fleet) pass(d time.Duration, silent string) {
	f.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		f.advertiseBut(silent)
		time.Sleep(min(advertiseEvery, time.Until(end)))
	}
	synctest.Wait()
}

func (f *fleet) advertiseBut(silent string) {
	f.t.Helper()
	for _, id := range []string{"rome", "paris", "berlin"} {
		if id != silent {
			f.advertise(id, map[string]string{"rome": "4", "paris": "16", "berlin": "12"}[id], "64Gi", func(a *v1.Advertisement) {
				if id == "berlin" {
					a.Allocated = v1.Amounts{"cpu": "4"}
				}
			})
		}
	}
}

// servedByParis returns an Active reservation of rome for 4 CPUs at paris. change may modify the
// request.
func (f *fleet) servedByParis(change ...func(*v1.ReservationRequest)) *v1.Reservation {
	f.t.Helper()
	f.advertiseBut("nobody")
	req := lasting(time.Hour)
	req.Resources = v1.Amounts{"cpu": "4", "memory": "8Gi"}
	for _, c := range change {
		c(req)
	}
	r := f.carriedOut("rome", f.reserve("rome", "request-1", req))
	if target(r) != "paris" {
		f.t.Fatalf("%s serves it, not paris", target(r))
	}
	return r
}

// placements returns the phase of a reservation, and the provider, state and reason of each
// placement.
func (f *fleet) placements(r *v1.Reservation) string {
	f.t.Helper()
	r = f.get("rome", r.Name)
	out := string(r.Phase) + ":"
	for _, p := range r.Placements {
		out += " " + p.ClusterID + "=" + string(p.State)
		if p.Reason != "" {
			out += "(" + p.Reason + ")"
		}
	}
	return out
}

func (f *fleet) wantPlacements(r *v1.Reservation, when, want string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.placements(r)); diff != "" {
		f.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

const (
	besideLost = "Active: paris=Ready berlin=Assigned"
	untouched  = "Active: paris=Ready"
)

// The broker is killed and restarted between the steps.
func TestHealingMovesOnceNewNodeIsReady(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.pass(staleAfter-time.Second, "paris")
		f.wantPlacements(r, "before paris is stale", untouched)
		if left := f.poll("rome", "").Instructions[0].MoveSeconds; left != nil {
			t.Errorf("rome is told that it moves in %v s, and paris is not silent", *left)
		}
		f.pass(2*time.Second, "paris")
		f.wantPlacements(r, "once it is", besideLost)
		if got := f.available("paris") + ", " + f.available("berlin"); got != "12 56Gi, 4 56Gi" {
			t.Errorf("%s is left while both hold", got)
		}
		var roles []string
		for _, in := range f.poll("rome", "").Instructions {
			roles = append(roles, in.ProviderID+" "+string(in.State))
		}
		if diff := cmp.Diff([]string{"paris Hold", "berlin Hold"}, roles); diff != "" {
			t.Errorf("what rome is told (-want +got):\n%s", diff)
		}
		f.kill()
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.kill()
		f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
		synctest.Wait()
		f.wantPlacements(r, "once the new node is Ready", "Active: paris=Withdrawing(ProviderLost) berlin=Ready")
		if got := f.poll("rome", "").Instructions[0].Reason; got != "ProviderLost" {
			t.Errorf("rome is told %q, want ProviderLost", got)
		}
		f.kill()
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
		f.wantAvailable("paris", "12 56Gi")
		f.advertise("paris", "16", "64Gi")
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		f.wantPlacements(r, "once paris has confirmed", "Active: paris=Gone(ProviderLost) berlin=Ready")
		f.wantAvailable("paris", "16 64Gi")
		f.pass(staleAfter+time.Second, "berlin")
		f.wantPlacements(r, "when berlin is lost in turn", "Active: paris=Gone(ProviderLost) berlin=Ready paris=Assigned")
	})
}

func TestHealingContinuesAfterARestart(t *testing.T) {
	tests := map[string]struct {
		happens func(f *fleet, r *v1.Reservation)
		want    string
	}{
		"before it began": {func(f *fleet, _ *v1.Reservation) {
			f.pass(staleAfter-time.Second, "paris")
			f.kill()
		}, besideLost},
		"when the provider was known to be lost": {func(f *fleet, _ *v1.Reservation) {
			f.pass(staleAfter+time.Second, "paris")
			f.mustReport("berlin", f.get("rome", "request-1"), 2, provider, v1.StatusReportStateRefused)
			f.kill()
		}, "Active: paris=Ready berlin=Gone(Refused) berlin=Assigned"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.servedByParis()
				c.happens(f, r)
				before := f.placements(r)
				f.pass(staleAfter-time.Second, "paris")
				f.wantPlacements(r, "before agents had the time to speak to the new one", before)
				f.pass(2*time.Second, "paris")
				f.wantPlacements(r, "after", c.want)
			})
		})
	}
}

func TestOlderPlacementStandsUntilNewOneServes(t *testing.T) {
	tests := map[string]struct {
		happens func(f *fleet, r *v1.Reservation)
		want    string
	}{
		"the provider is heard again before the new node is Ready": {func(f *fleet, r *v1.Reservation) {
			f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
			f.advertise("paris", "16", "64Gi")
		}, "Active: paris=Ready berlin=Withdrawing(ProviderBack)"},
		"the new one refuses": {func(f *fleet, r *v1.Reservation) {
			f.mustReport("berlin", r, 2, provider, v1.StatusReportStateRefused)
		}, "Active: paris=Ready berlin=Gone(Refused)"},
		"the new one does not answer": {func(f *fleet, _ *v1.Reservation) {
			f.pass(limits.Acknowledge, "paris")
		}, "Active: paris=Ready berlin=Withdrawing(Unacknowledged)"},
		"the new node never is Ready": {func(f *fleet, r *v1.Reservation) {
			f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
			f.pass(limits.Ready, "paris")
		}, "Active: paris=Ready berlin=Withdrawing(NeverReady)"},
		"the old node is lost and the new one not Ready": {func(f *fleet, r *v1.Reservation) {
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateNotReady)
		}, "Reserved: paris=Acknowledged berlin=Assigned"},
		"another cluster is there when one refuses": {func(f *fleet, r *v1.Reservation) {
			f.advertise("oslo", "8", "64Gi")
			f.mustReport("berlin", r, 2, provider, v1.StatusReportStateRefused)
		}, "Active: paris=Ready berlin=Gone(Refused) oslo=Assigned"},
		"it is released": {func(f *fleet, r *v1.Reservation) {
			f.release("rome", r.Name)
		}, "Releasing: paris=Withdrawing berlin=Withdrawing"},
		"its time is over": {func(f *fleet, r *v1.Reservation) {
			f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
			change := &v1.ReservationChange{Generation: 2, DurationSeconds: 150}
			if _, err := f.ChangeReservation(context.Background(), "rome", r.Name, change); err != nil {
				f.t.Fatal(err)
			}
			f.pass(time.Minute, "paris")
		}, "Releasing: paris=Withdrawing berlin=Withdrawing"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.servedByParis()
				f.pass(staleAfter+time.Second, "paris")
				f.wantPlacements(r, "at first", besideLost)
				c.happens(f, r)
				synctest.Wait()
				f.wantPlacements(r, "then", c.want)
				f.wantAvailable("paris", "12 56Gi")
			})
		})
	}
}

func TestHealingWaitsWithoutAnotherCluster(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(func(req *v1.ReservationRequest) { req.Resources = v1.Amounts{"cpu": "10", "memory": "1Gi"} })
		f.pass(10*time.Minute, "paris")
		f.wantPlacements(r, "without another cluster", untouched)
		f.advertise("oslo", "16", "64Gi")
		f.pass(5*time.Second, "paris")
		f.wantPlacements(r, "with one", "Active: paris=Ready oslo=Assigned")
	})
}

func TestReservationWithHealingWaitIsNotMoved(t *testing.T) {
	for name, change := range map[string]func(*v1.ReservationRequest){
		"with healing Wait": func(req *v1.ReservationRequest) { req.Healing = v1.ReservationRequestHealingWait },
		"with a target":     func(req *v1.ReservationRequest) { req.TargetClusterID = "paris" },
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.servedByParis(change)
				f.pass(10*time.Minute, "paris")
				f.wantPlacements(r, "while paris is silent", untouched)
				f.pass(time.Hour, "paris")
				f.wantPlacements(r, "when its time is over", "Releasing: paris=Withdrawing")
			})
		})
	}
}

// A silent requester does not learn of a new placement, so the broker grants none until it is back.
func TestHealingWaitsForSilentRequester(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		for range 10 {
			f.advertise("berlin", "12", "64Gi")
			time.Sleep(advertiseEvery)
		}
		f.wantPlacements(r, "while both are silent", untouched)
		f.pass(time.Second, "paris")
		if got := f.placements(r); !strings.HasPrefix(got, "Active: paris=Ready berlin=") {
			t.Errorf("once rome is back: %s", got)
		}
	})
}

func TestOtherAmountsWhileAReservationIsMoved(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.pass(time.Second, "nobody")
		grow := func(generation int64, cpu string) error {
			_, err := f.ChangeReservation(context.Background(), "rome", r.Name,
				&v1.ReservationChange{Generation: generation, DurationSeconds: 3600, Resources: v1.Amounts{"cpu": cpu, "memory": "8Gi"}})
			return err
		}
		runtest.Check(t, grow(2, "6"))
		f.pass(staleAfter+time.Second, "paris")
		f.wantPlacements(r, "a change that paris has not answered keeps nothing up", besideLost)
		changeIs := func(want v1.ChangeStateState, says string) {
			t.Helper()
			if c := f.get("rome", r.Name).Change; c == nil || c.State != want || !strings.Contains(c.Message, says) {
				t.Errorf("the change is %+v, want %s: %s", c, want, says)
			}
		}
		changeIs(v1.ChangeStateStatePending, "waiting for paris")
		answer := &v1.StatusReport{Placement: 1, Role: provider, State: v1.StatusReportStateAcknowledged, Change: 2}
		if err := f.ReportStatus(context.Background(), "paris", r.Name, answer); fault.ReasonOf(err) != fault.Awaiting {
			t.Errorf("an answer of paris before its agent is heard: %v, want %s", err, fault.Awaiting)
		}
		if err := grow(3, "5"); fault.ReasonOf(err) != fault.Awaiting {
			t.Errorf("a change while two stand: %v, want %s", err, fault.Awaiting)
		}
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
		synctest.Wait()
		changeIs(v1.ChangeStateStateRefused, "had not answered")
		f.wantAvailable("paris", "10 56Gi")
		if err := grow(3, "5"); err != nil {
			t.Errorf("a change when berlin alone serves it: %v", err)
		}
		f.wantAvailable("berlin", "3 56Gi")
	})
}

// berlin was to take over a reservation of the silent paris, but refused. The old placement stands
// alone again, and a preemption gives it up like any other.
func TestPreemptionAfterFailedHealing(t *testing.T) {
	inFleet(t, func(f *fleet) {
		config := settings.Default()
		config.Preemption = queueing.PreemptionConfig{LowerPriority: true, Grace: 30 * time.Second} // shorter than the minute after which berlin may be tried again
		f.SetConfig(context.Background(), config)
		r := f.servedByParis()
		f.pass(staleAfter+time.Second, "paris")
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateRefused)
		f.pass(time.Second, "nobody")
		f.reserve("berlin", "request-2", &v1.ReservationRequest{
			Resources: v1.Amounts{"cpu": "16", "memory": "1Gi"}, Priority: 1, QueuePolicy: v1.ReservationRequestQueuePolicyQueue,
		})
		f.pass(config.Preemption.Grace+time.Second, "nobody")
		f.wantPlacements(r, "when it has made room", "Releasing: paris=Withdrawing(Preempted) berlin=Gone(Refused)")
		if got := f.get("rome", r.Name).EndReason; got != v1.ReservationEndReasonPreempted {
			t.Errorf("it ended as %s", got)
		}
	})
}

// The provider still advertises, but the virtual node is not Ready.
func TestReservationMovesAwayFromANodeThatIsNotReady(t *testing.T) {
	notReady := settings.DefaultTimeouts().NotReady
	lost := func(f *fleet, change ...func(*v1.ReservationRequest)) *v1.Reservation {
		r := f.servedByParis(change...)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateNotReady)
		return r
	}
	t.Run("after the configured time, and it counts once another node is Ready", func(t *testing.T) {
		inFleet(t, func(f *fleet) {
			r := lost(f)
			f.pass(notReady-time.Second, "")
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateNotReady) // a repeated report must not start the time anew
			f.wantPlacements(r, "before", "Reserved: paris=Acknowledged")
			f.pass(2*time.Second, "")
			f.wantPlacements(r, "afterwards", "Reserved: paris=Acknowledged berlin=Assigned")
			if record, _ := f.recordOf("paris"); record.Dropped != 0 {
				t.Errorf("nobody else serves yet, and paris has %+v", record)
			}
			f.kill()
			f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
			f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
			synctest.Wait()
			f.wantPlacements(r, "once the new node is Ready", "Active: paris=Withdrawing(NodeNotReady) berlin=Ready")
			record, share := f.recordOf("paris")
			view, err := f.Cluster(context.Background(), "paris")
			if record.Dropped != 1 || share != "0.50" || err != nil || view.Failures["rome"] != 1 {
				t.Errorf("paris: %+v, %s, failures %v, %v", record, share, view.Failures, err)
			}
		})
	})
	t.Run("unless it is Ready again", func(t *testing.T) {
		inFleet(t, func(f *fleet) {
			r := lost(f)
			f.pass(notReady+time.Second, "")
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
			synctest.Wait()
			f.wantPlacements(r, "once it is", "Active: paris=Ready berlin=Withdrawing(ProviderBack)")
			f.pass(time.Minute, "")
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateNotReady)
			f.pass(notReady-time.Second, "")
			if got := f.get("rome", r.Name); len(got.Placements) != 2 {
				t.Errorf("its time did not begin anew: %+v", got.Placements)
			}
		})
	})
	t.Run("also if it is Ready for a second now and then", func(t *testing.T) {
		inFleet(t, func(f *fleet) {
			r := lost(f)
			blink := func() {
				f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
				f.pass(time.Second, "")
				f.mustReport("rome", r, 1, consumer, v1.StatusReportStateNotReady)
			}
			for range 6 {
				f.pass(44*time.Second, "")
				blink()
			}
			f.pass(notReady-6*45*time.Second+time.Second, "")
			f.wantPlacements(r, "after the configured time", "Reserved: paris=Acknowledged berlin=Assigned")
			f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
			blink()
			f.wantPlacements(r, "after it was Ready once more", "Reserved: paris=Acknowledged berlin=Acknowledged")
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
			f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
			synctest.Wait()
			f.wantPlacements(r, "once the new node is Ready", "Active: paris=Withdrawing(NodeNotReady) berlin=Ready")
			if record, _ := f.recordOf("paris"); record.Dropped != 1 {
				t.Errorf("paris: %+v", record)
			}
		})
	})
	t.Run("not if its user waits", func(t *testing.T) {
		inFleet(t, func(f *fleet) {
			r := lost(f, func(q *v1.ReservationRequest) { q.Healing = v1.ReservationRequestHealingWait })
			f.pass(2*notReady, "")
			f.wantPlacements(r, "after twice the time", "Reserved: paris=Acknowledged")
			if got := f.get("rome", r.Name).Message; !strings.Contains(got, "has not been Ready since") {
				t.Errorf("rome is told %q", got)
			}
		})
	})
}
