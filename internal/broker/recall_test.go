package broker

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// callsBack makes paris recall the first placement of a reservation with its advertisement; nil
// withdraws the recall.
func (f *fleet) callsBack(r *v1.Reservation, recall *v1.Recall) {
	f.t.Helper()
	f.advertise("paris", "16", "64Gi", func(a *v1.Advertisement) {
		a.Usage = []v1.Usage{{Reservation: r.Name, Placement: 1, Used: v1.Amounts{}, Recall: recall}}
	})
	synctest.Wait()
}

func in(d time.Duration) *v1.Recall {
	return &v1.Recall{RemainingSeconds: d.Seconds(), Message: "rack 4 is replaced"}
}

func (f *fleet) wantMessage(r *v1.Reservation, when string, want ...string) {
	f.t.Helper()
	got := f.get("rome", r.Name).Message
	for _, words := range want {
		if !strings.Contains(got, words) {
			f.t.Errorf("%s it says %q, nothing of %q", when, got, words)
		}
	}
}

// The broker is killed and restarted between the steps.
func TestRecalledPlacementIsLeftOnceTheNewNodeIsReady(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.callsBack(r, in(10*time.Minute))
		f.wantPlacements(r, "at once", "Active: paris=Ready berlin=Assigned")
		f.wantMessage(r, "at once", "paris calls its capacity back (rack 4 is replaced)", "berlin takes over")
		notice := f.poll("rome", "").Instructions[0].Notice
		if notice == nil || notice.Reason != v1.NoticeReasonRecalled || math.Round(notice.RemainingSeconds) != 600 {
			t.Errorf("rome is told %+v", notice)
		}
		f.kill()
		f.callsBack(r, in(10*time.Minute))
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.kill()
		f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
		synctest.Wait()
		f.wantPlacements(r, "once the new node is Ready", "Active: paris=Withdrawing(Recalled) berlin=Ready")
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		f.pass(staleAfter+time.Second, "berlin")
		f.wantPlacements(r, "when berlin is lost later, paris is not asked", "Active: paris=Gone(Recalled) berlin=Ready")
	})
}

func TestWithdrawnRecall(t *testing.T) {
	tests := map[string]struct {
		before func(f *fleet, r *v1.Reservation)
		want   string
	}{
		"before the new one serves": {func(*fleet, *v1.Reservation) {}, "Active: paris=Ready berlin=Withdrawing(ProviderBack)"},
		"while the broker was away": {func(f *fleet, _ *v1.Reservation) { f.kill() }, "Active: paris=Ready berlin=Withdrawing(ProviderBack)"},
		"too late": {func(f *fleet, r *v1.Reservation) {
			f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
			f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
			synctest.Wait()
		}, "Active: paris=Withdrawing(Recalled) berlin=Ready"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.servedByParis()
				f.callsBack(r, in(10*time.Minute))
				c.before(f, r)
				f.callsBack(r, nil)
				f.wantPlacements(r, "then", c.want)
				if notice := f.get("rome", r.Name).Notice; notice != nil {
					t.Errorf("rome is still told %+v", notice)
				}
			})
		})
	}
}

func TestRecalledPlacementWithoutAlternativeStaysUntilItsDeadline(t *testing.T) {
	tests := map[string]struct {
		queue v1.ReservationRequestQueuePolicy
		want  string
		says  string
	}{
		"and waits then":                        {v1.ReservationRequestQueuePolicyQueue, "Queued: paris=Withdrawing(Recalled)", "paris has called its capacity back"},
		"and fails then, where it may not wait": {"", "Releasing: paris=Withdrawing(Recalled)", "paris has called it back, and no cluster can hold"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.servedByParis(func(r *v1.ReservationRequest) {
					r.Resources, r.QueuePolicy = v1.Amounts{"cpu": "14", "memory": "8Gi"}, c.queue
				})
				f.callsBack(r, in(2*time.Minute))
				f.wantPlacements(r, "at once", untouched)
				for left := 90 * time.Second; left > 0; left -= 30 * time.Second {
					time.Sleep(30 * time.Second)
					f.advertiseBut("paris")
					f.callsBack(r, in(left))
				}
				f.wantPlacements(r, "before its time", untouched)
				time.Sleep(30 * time.Second)
				synctest.Wait()
				f.wantPlacements(r, "at its time", c.want)
				f.wantMessage(r, "at its time", c.says)
			})
		})
	}
}

func TestRepeatedRecallWritesNothing(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(func(r *v1.ReservationRequest) { r.TargetClusterID = "paris" })
		f.callsBack(r, in(10*time.Minute))
		before := f.poll("rome", "").Cursor
		time.Sleep(30 * time.Second)
		f.callsBack(r, in(10*time.Minute-32*time.Second))
		if after := f.poll("rome", "").Cursor; after != before {
			t.Errorf("positions %s and %s", before, after)
		}
		f.callsBack(r, in(time.Hour))
		if got := f.get("rome", r.Name).Notice; got == nil || math.Round(got.RemainingSeconds) != 3600 {
			t.Errorf("put off, rome is told %+v", got)
		}
	})
}

func TestOnlyOwnProviderRecallsPlacement(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.advertise("berlin", "12", "64Gi", func(a *v1.Advertisement) {
			a.Usage = []v1.Usage{{Reservation: r.Name, Placement: 1, Used: v1.Amounts{}, Recall: in(time.Second)}}
		})
		synctest.Wait()
		f.wantPlacements(r, "when berlin speaks of it", untouched)
	})
}

func TestOlderAdvertisementRecallsNothing(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.callsBack(r, in(10*time.Minute))
		f.callsBack(r, nil)
		_, err := f.PublishAdvertisement(context.Background(), "paris", &v1.Advertisement{
			ClusterID: "paris", Epoch: 1, Sequence: f.sequence - 1, EndpointURL: endpointOf("paris"),
			Usage: []v1.Usage{{Reservation: r.Name, Placement: 1, Used: v1.Amounts{}, Recall: in(time.Minute)}},
		})
		if fault.ReasonOf(err) != fault.Conflict {
			t.Errorf("the older advertisement was answered with %v, want a conflict", err)
		}
		if got := f.get("rome", r.Name).Notice; got != nil {
			t.Errorf("rome is told %+v", got)
		}
	})
}

func TestMissedDeadlineWaitsForProvider(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(func(r *v1.ReservationRequest) { r.TargetClusterID = "paris" })
		f.callsBack(r, in(time.Minute))
		f.stop()
		time.Sleep(2 * time.Minute)
		f.start()
		f.wantPlacements(r, "when it is back", untouched)
		f.callsBack(r, nil)
		f.pass(2*time.Minute, "nobody")
		f.wantPlacements(r, "as it was withdrawn", untouched)
	})
}

// After an outage, the broker postpones the end of leases. This must not hide the end of a recall.
func TestRecallEndsOnTimeThoughTheLeaseRanOutAfterAnOutage(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(func(q *v1.ReservationRequest) { q.DurationSeconds, q.TargetClusterID = 0, "paris" })
		time.Sleep(lease - time.Minute)
		synctest.Wait()
		f.kill()
		f.callsBack(r, in(10*time.Minute))
		time.Sleep(10*time.Minute - time.Second)
		synctest.Wait()
		f.wantPlacements(r, "before the recall ends", "Active: paris=Ready")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		f.wantPlacements(r, "after the recall has ended", "Releasing: paris=Withdrawing(Recalled)")
	})
}
