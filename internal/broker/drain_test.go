package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// drains sets the drain of paris; nil removes it.
func (f *fleet) drains(d *drains.Drain) {
	f.t.Helper()
	c := f.Broker.config
	c.Drains = nil
	if d != nil {
		c.Drains = map[string]drains.Drain{"paris": *d}
	}
	f.config = &c
	f.SetConfig(context.Background(), c)
	synctest.Wait()
}

// pauses sets whether an administrator has paused the queue.
func (f *fleet) pauses(paused bool) {
	f.t.Helper()
	c := f.Broker.config
	c.Queue.Paused = paused
	f.SetConfig(context.Background(), c)
	synctest.Wait()
}

// The broker is killed and restarted between the steps.
func TestDrainMovesReservationsOnceTheNewNodeIsReady(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.drains(&drains.Drain{Notice: 10 * time.Minute, Reason: "rack 4 is replaced"})
		f.wantPlacements(r, "at once", "Active: paris=Ready berlin=Assigned")
		f.wantMessage(r, "at once", "the broker's administrator drains paris (rack 4 is replaced)", "berlin takes over")
		f.kill()
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.kill()
		f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
		synctest.Wait()
		f.wantPlacements(r, "once the new node is Ready", "Active: paris=Withdrawing(Drained) berlin=Ready")
	})
}

func TestDrainIsUndone(t *testing.T) {
	tests := map[string]struct {
		to   *drains.Drain
		want string
	}{
		"by removing it":             {nil, "Active: paris=Ready berlin=Withdrawing(ProviderBack)"},
		"when only a cordon is left": {&drains.Drain{CordonOnly: true}, "Active: paris=Ready berlin=Withdrawing(ProviderBack)"},
		"not with a longer notice":   {&drains.Drain{Notice: time.Hour}, "Active: paris=Ready berlin=Assigned"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.servedByParis()
				f.drains(&drains.Drain{Notice: 10 * time.Minute})
				f.drains(c.to)
				f.wantPlacements(r, "then", c.want)
			})
		})
	}
}

func TestDrainedReservationWithoutAlternativeLeavesAtTheEndOfTheNotice(t *testing.T) {
	tests := map[string]struct {
		queue v1.ReservationRequestQueuePolicy
		want  string
		says  string
	}{
		"and waits then":                        {v1.ReservationRequestQueuePolicyQueue, "Queued: paris=Withdrawing(Drained)", "the broker's administrator has drained paris"},
		"and fails then, where it may not wait": {"", "Releasing: paris=Withdrawing(Drained)", "the broker's administrator has drained paris, and no cluster can hold"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.servedByParis(func(r *v1.ReservationRequest) {
					r.Resources, r.QueuePolicy = v1.Amounts{"cpu": "14", "memory": "8Gi"}, c.queue
				})
				f.drains(&drains.Drain{Notice: 2 * time.Minute})
				f.pass(110*time.Second, "nobody")
				f.wantPlacements(r, "before its time", untouched)
				f.pass(11*time.Second, "nobody")
				f.wantPlacements(r, "at its time", c.want)
				f.wantMessage(r, "at its time", c.says)
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
				f.drains(nil)
				if c.queue != "" {
					f.wantPlacements(r, "after the drain it returns", "Reserved: paris=Gone(Drained) paris=Assigned")
				}
			})
		})
	}
}

func TestDrainWithoutNoticeIsCarriedOutAndUndoneAtOnce(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis(func(r *v1.ReservationRequest) {
			r.TargetClusterID, r.QueuePolicy = "paris", v1.ReservationRequestQueuePolicyQueue
		})
		f.pass(2*time.Minute, "nobody") // agents may not have reached a new leader yet, so it begins no recall
		f.drains(&drains.Drain{})
		f.wantPlacements(r, "at once", "Queued: paris=Withdrawing(Drained)")
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		f.drains(nil)
		f.wantPlacements(r, "after the drain", "Reserved: paris=Gone(Drained) paris=Assigned")
	})
}

func TestCordonedClusterGetsNothingNew(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.drains(&drains.Drain{CordonOnly: true, Reason: "rack 4"})
		f.wantPlacements(r, "what runs", untouched)
		if got := f.get("rome", r.Name).Notice; got != nil {
			t.Errorf("rome is told %+v", got)
		}
		view, err := f.Cluster(context.Background(), "paris")
		if err != nil || view.Standing == nil || view.Standing.Cordoned != "is cordoned by the broker's administrator (rack 4)" {
			t.Errorf("paris is shown as %+v, %v", view.Standing, err)
		}
		_, err = f.RequestReservation(context.Background(), "rome", "another-key-0001", &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}, TargetClusterID: "paris"})
		why, ok := err.(*fault.Error)
		if !ok || why.Reason != fault.NoCandidate || why.Candidates[0].Reason != string(decision.Cordoned) || why.Candidates[0].Message != "is cordoned by the broker's administrator (rack 4)" {
			t.Errorf("asking for paris was answered with %v", err)
		}
		_, err = f.ChangeReservation(context.Background(), "rome", r.Name, &v1.ReservationChange{Generation: 1, Resources: v1.Amounts{"cpu": "5", "memory": "8Gi"}})
		if fault.ReasonOf(err) != fault.Conflict {
			t.Errorf("growing on paris was answered with %v", err)
		}
	})
}

func TestEarlierEndOfRecallAndDrainCounts(t *testing.T) {
	tests := map[string]struct {
		provider, administrator time.Duration
		want                    string
	}{
		"that of the provider":      {5 * time.Minute, 10 * time.Minute, "paris calls its capacity back"},
		"that of the administrator": {10 * time.Minute, 5 * time.Minute, "the broker's administrator drains paris"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.servedByParis(func(r *v1.ReservationRequest) { r.TargetClusterID = "paris" })
				f.callsBack(r, in(c.provider))
				f.drains(&drains.Drain{Notice: c.administrator})
				f.callsBack(r, in(c.provider))
				f.wantMessage(r, "while both apply", c.want)
				f.callsBack(r, nil)
				f.wantMessage(r, "once the provider no longer does", "the broker's administrator drains paris")
				f.callsBack(r, in(time.Hour))
				f.drains(nil)
				f.callsBack(r, in(time.Hour))
				f.wantMessage(r, "once only the provider does", "paris calls its capacity back")
			})
		})
	}
}

func TestPausedQueueGrantsNothingAndKeepsPlaces(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.pauses(true)
		large := v1.ReservationRequest{Resources: v1.Amounts{"cpu": "14", "memory": "8Gi"}, QueuePolicy: v1.ReservationRequestQueuePolicyQueue, QueueTimeoutSeconds: 60}
		waits, err := f.RequestReservation(context.Background(), "rome", "large-key-000001", &large)
		if err != nil || waits.Queue == nil || waits.Queue.Reason != v1.QueuePlaceReasonQueuePaused {
			t.Fatalf("the large request was answered with %+v, %v", waits, err)
		}
		f.release("rome", r.Name)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateGone)
		f.pass(2*time.Minute, "nobody")
		f.wantMessage(waits, "beyond its timeout", "place 1 of 1; the broker's administrator has paused the queue")

		small := v1.ReservationRequest{Resources: v1.Amounts{"cpu": "4", "memory": "8Gi"}, TargetClusterID: "paris"}
		f.wantRefusal("rome", "small-key-000001", &small, fault.NoCandidate)
		small.TargetClusterID = "berlin"
		if _, err := f.RequestReservation(context.Background(), "rome", "small-key-000002", &small); err != nil {
			t.Errorf("a request that passes none was answered with %v", err)
		}
		f.pauses(false)
		f.wantPlacements(waits, "once the queue is served again", "Reserved: paris=Assigned")
	})
}

func TestOverdueRequestFailsOnceTheQueueIsResumed(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.pauses(true)
		waits, err := f.RequestReservation(context.Background(), "rome", "large-key-000001", &v1.ReservationRequest{
			Resources: v1.Amounts{"cpu": "99", "memory": "8Gi"}, QueuePolicy: v1.ReservationRequestQueuePolicyQueue, QueueTimeoutSeconds: 60,
		})
		runtest.Check(t, err)
		f.pass(2*time.Minute, "nobody")
		f.wantPlacements(waits, "while the queue is paused", "Queued:")
		f.pauses(false)
		synctest.Wait()
		f.wantPlacements(waits, "then", "Failed:")
	})
}
