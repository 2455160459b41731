package broker

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// idleAfter is how long a reservation must be idle before the action of its request is due.
const idleAfter = 10 * time.Minute

func idleRelease(r *v1.ReservationRequest) {
	r.Idle = &v1.Idle{AfterSeconds: int64(idleAfter / time.Second), Action: v1.IdleActionRelease}
}

// observed is what the agents of rome and paris report about the first placement of a reservation.
type observed struct {
	// pods is true if rome's virtual node has a pod. used is the CPU that paris reports as used.
	pods bool
	used string
	// romeLeavesOut and parisLeavesOut are true if rome or paris does not report about the
	// placement.
	romeLeavesOut, parisLeavesOut bool
	// silent names a cluster that sends nothing. recalled is true if paris recalls the placement.
	silent   string
	recalled bool
}

// observe lets rome and paris advertise what o says for a time d, and returns rome's last receipt.
// Unless o.pods is set, rome reports that the virtual node has had no pod since empty.
func (f *fleet) observe(r *v1.Reservation, d time.Duration, o observed, empty time.Time) (receipt *v1.AdvertisementReceipt) {
	f.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(min(advertiseEvery, time.Until(end))) {
		for id, cpu := range map[string]string{"rome": "4", "paris": "16"} {
			if id == o.silent {
				continue
			}
			f.sequence++
			amounts := v1.Amounts{"cpu": cpu, "memory": "64Gi"}
			adv := &v1.Advertisement{ClusterID: id, Epoch: 1, Sequence: f.sequence, Capacity: amounts, Allocatable: amounts, Allocated: v1.Amounts{}, EndpointURL: "https://" + id + ".example:6443"}
			switch {
			case id == "paris" && !o.parisLeavesOut:
				usage := v1.Usage{Reservation: r.Name, Placement: 1, Used: v1.Amounts{}}
				if o.used != "" {
					usage.Used["cpu"] = o.used
				}
				if o.recalled {
					usage.Recall = &v1.Recall{RemainingSeconds: time.Hour.Seconds()}
				}
				adv.Usage = []v1.Usage{usage}
			case id == "rome" && !o.romeLeavesOut && !o.pods:
				adv.Vacant = []v1.Vacancy{{Reservation: r.Name, Placement: 1, Seconds: time.Since(empty).Seconds()}}
			}
			got, err := f.PublishAdvertisement(context.Background(), id, adv)
			runtest.Check(f.t, err)
			if id == "rome" {
				receipt = got
			}
		}
	}
	synctest.Wait()
	return receipt
}

// idleTime returns what rome is told about the idle time of its reservation.
func (f *fleet) idleTime(r *v1.Reservation) *v1.IdleTime {
	f.t.Helper()
	return f.get("rome", r.Name).Instruction.Idle
}

// wantActive fails the test unless the reservation is Active and has not ended.
func (f *fleet) wantActive(r *v1.Reservation, when string) {
	f.t.Helper()
	if got := f.get("rome", r.Name); got.Phase != v1.ReservationPhaseActive || got.EndReason != "" {
		f.t.Fatalf("%s it is %s (%s), want Active", when, got.Phase, got.EndReason)
	}
}

func TestIdleReservationIsReleasedOnceItsRequesterConfirms(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(idleRelease)
		began := time.Now()
		if receipt := f.observe(r, idleAfter/2-time.Second, observed{}, began); !receipt.ReportVacant {
			t.Error("rome is not asked which nodes have no pods")
		}
		if got := f.idleTime(r); got != nil {
			t.Fatalf("rome is told too early: %+v", got)
		}
		f.observe(r, 2*time.Second, observed{}, began)
		told := f.idleTime(r)
		if told == nil || told.ReleaseSeconds == nil || *told.ReleaseSeconds > idleAfter.Seconds()/2 {
			t.Fatalf("after half of the time rome is told %+v", told)
		}
		f.observe(r, idleAfter/2-2*time.Second, observed{}, began)
		if err := f.report("rome", r, 1, consumer, v1.StatusReportStateVacant); fault.ReasonOf(err) != fault.Unavailable {
			t.Errorf("a confirmation before the time was answered with %v", err)
		}
		f.wantActive(r, "before its time")
		f.observe(r, 2*time.Second, observed{}, began)
		f.wantActive(r, "without confirmation")
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateVacant)
		if got := f.get("rome", r.Name); got.Phase != v1.ReservationPhaseReleasing || got.EndReason != v1.ReservationEndReasonIdle {
			t.Errorf("it is %s (%s), want Releasing (Idle)", got.Phase, got.EndReason)
		}
		if late := time.Since(began) - idleAfter; late > time.Minute {
			t.Errorf("it is released %s late", late)
		}
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateVacant) // a repeated report must change nothing
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		f.wantAvailable("paris", "16 64Gi")
	})
}

func TestReservationThatMayBeUsedIsNotReleased(t *testing.T) {
	tests := map[string]observed{
		"a pod is on the node":                        {pods: true},
		"the provider reports usage":                  {used: "1m"},
		"the provider does not report the placement":  {parisLeavesOut: true},
		"the requester does not report the placement": {romeLeavesOut: true},
		"the provider is silent":                      {silent: "paris"},
		"the requester is silent":                     {silent: "rome"},
		"the provider calls it back":                  {recalled: true},
	}
	for name, o := range tests {
		t.Run(name, func(t *testing.T) {
			for when, before := range map[string]time.Duration{"from the start": 0, "after the notice": idleAfter - time.Minute} {
				inFleet(t, func(f *fleet) {
					r := f.servedByParis(idleRelease, func(r *v1.ReservationRequest) {
						r.Healing, r.DurationSeconds = v1.ReservationRequestHealingWait, 0
					})
					began := time.Now()
					f.observe(r, before, observed{}, began)
					// A silent cluster is noticed after 90 s.
					for changed := time.Now(); time.Since(changed) < 3*idleAfter; {
						f.observe(r, 2*time.Minute, o, began)
						if got := f.idleTime(r); got != nil {
							t.Fatalf("%s: rome is told %+v %s later", when, got, time.Since(changed))
						}
					}
					if err := f.report("rome", r, 1, consumer, v1.StatusReportStateVacant); fault.ReasonOf(err) != fault.Conflict {
						t.Errorf("%s: a confirmation was answered with %v", when, err)
					}
					f.wantActive(r, when)
				})
			}
		})
	}
}

func TestIdleTimeBeginsAnewAfterATakeover(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(idleRelease)
		empty := time.Now()
		f.observe(r, idleAfter-time.Minute, observed{}, empty)
		if f.idleTime(r) == nil {
			t.Fatal("rome is not told")
		}
		f.kill()
		began := time.Now()
		f.observe(r, 2*time.Minute, observed{}, empty)
		if got := f.idleTime(r); got == nil || got.ReleaseSeconds == nil || *got.ReleaseSeconds < (idleAfter-3*time.Minute).Seconds() {
			t.Errorf("after the takeover rome is told %+v", got)
		}
		if err := f.report("rome", r, 1, consumer, v1.StatusReportStateVacant); err == nil {
			t.Error("the time of the earlier term counts")
		}
		f.observe(r, idleAfter-2*time.Minute-time.Second, observed{}, empty)
		if err := f.report("rome", r, 1, consumer, v1.StatusReportStateVacant); err == nil {
			t.Errorf("released %s after the takeover", time.Since(began))
		}
		f.observe(r, 30*time.Second, observed{}, empty)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateVacant)
		if got := f.get("rome", r.Name); got.EndReason != v1.ReservationEndReasonIdle {
			t.Errorf("it is %s (%s)", got.Phase, got.EndReason)
		}
	})
}

// The agent keeps the node closed for a minute. A confirmation that was on its way for longer says nothing about the
// pods that came after that.
func TestLateConfirmationReleasesNothing(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(idleRelease)
		empty := time.Now()
		f.observe(r, idleAfter+50*time.Second, observed{}, empty)
		if err := f.report("rome", r, 1, consumer, v1.StatusReportStateVacant); fault.ReasonOf(err) != fault.Conflict {
			t.Errorf("a late confirmation was answered with %v", err)
		}
		f.wantActive(r, "after a late confirmation")
	})
}

// A member that says by turns that its node is used and that it has been empty for long must not fill the journal.
func TestRequesterCannotDateTheIdleTimeBack(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(idleRelease)
		began := time.Now().Add(-100 * idleAfter)
		f.observe(r, time.Second, observed{}, began)
		before := f.session.journal.Anchor().Position
		for range 50 {
			f.observe(r, time.Second, observed{pods: true}, began)
			f.observe(r, time.Second, observed{}, began)
		}
		if got := f.idleTime(r); got != nil {
			t.Errorf("rome is told %+v", got)
		}
		if written := f.session.journal.Anchor().Position - before; written > 2 {
			t.Errorf("%d records were written", written)
		}
	})
}

func TestPodTakesTheNoticeBack(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(idleRelease)
		f.observe(r, idleAfter-time.Minute, observed{}, time.Now())
		f.observe(r, time.Minute, observed{pods: true, used: "1"}, time.Now())
		if got := f.idleTime(r); got != nil {
			t.Errorf("rome is still told %+v", got)
		}
		empty := time.Now()
		f.observe(r, idleAfter/2+time.Second, observed{}, empty)
		if got := f.idleTime(r); got == nil || *got.ReleaseSeconds > idleAfter.Seconds()/2 || *got.ReleaseSeconds < idleAfter.Seconds()/2-2 {
			t.Errorf("the second time rome is told %+v", got)
		}
	})
}

func TestUnconfirmedReleaseBeginsTheIdleTimeAnew(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(idleRelease)
		empty := time.Now()
		f.observe(r, idleAfter+2*time.Minute-time.Second, observed{}, empty)
		if f.idleTime(r) == nil {
			t.Error("the notice is taken back before it can be confirmed")
		}
		f.observe(r, 2*time.Second, observed{}, empty)
		if got := f.idleTime(r); got != nil {
			t.Errorf("rome is still told %+v", got)
		}
		f.observe(r, idleAfter/2, observed{}, empty)
		if f.idleTime(r) == nil {
			t.Error("rome is not told again")
		}
		f.wantActive(r, "then")
	})
}

func TestBoundAppliesToReservationsWithoutIdle(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		empty := time.Now()
		if receipt := f.observe(r, idleAfter, observed{}, empty); receipt.ReportVacant {
			t.Error("rome is asked which nodes have no pods, and nobody wants to know")
		}
		bound := f.Broker.config
		bound.Idle = &ledger.IdlePolicy{After: idleAfter, Release: true}
		f.SetConfig(context.Background(), bound)
		f.observe(r, idleAfter/2, observed{}, empty)
		if got := f.idleTime(r); got == nil || *got.ReleaseSeconds > idleAfter.Seconds()/2 {
			t.Errorf("rome is told %+v", got)
		}
		bound.Idle = nil
		f.SetConfig(context.Background(), bound)
		synctest.Wait()
		if got := f.idleTime(r); got != nil {
			t.Errorf("without the bound rome is told %+v", got)
		}
		f.wantActive(r, "then")
	})
}

func TestIdleObservationsAreNotRecorded(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(func(r *v1.ReservationRequest) {
			r.Idle = &v1.Idle{AfterSeconds: int64(idleAfter / time.Second), Action: v1.IdleActionNotify}
		})
		empty := time.Now()
		f.observe(r, time.Minute, observed{}, empty)
		before, _ := f.Position()
		f.observe(r, 2*idleAfter, observed{}, empty)
		after, _ := f.Position()
		if got := f.idleTime(r); got == nil || got.ReleaseSeconds != nil {
			t.Errorf("rome is told %+v", got)
		}
		kept, err := journal.ReadKept(context.Background(), f.server.Client(), JournalName, journal.Options{})
		runtest.Check(t, err)
		var written []string
		for _, e := range kept.Entries {
			// Every 10 minutes the accounts record an observe event, also without idle
			// reservations.
			if e.Kind == "record" && e.Position > before && e.Position <= after && !bytes.Contains(e.Data, []byte(`"observe":{}`)) {
				written = append(written, string(e.Data))
			}
		}
		if len(written) != 1 {
			t.Errorf("the records %q were written, want the one about the idle time", written)
		}
	})
}
