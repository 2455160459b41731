package broker

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// The extra time that agents get after the broker was away, to acknowledge and to become Ready,
// does not extend a requested duration.
func TestDurationEndsOnTimeAfterOutage(t *testing.T) {
	tests := map[string]func(f *fleet, r *v1.Reservation){
		"the provider has not acknowledged": func(*fleet, *v1.Reservation) {},
		"the node is not Ready": func(f *fleet, r *v1.Reservation) {
			f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		},
	}
	for name, before := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("rome", "4", "8Gi")
				f.advertise("paris", "16", "64Gi")
				asked := request("2", "4Gi")
				asked.DurationSeconds = 60
				r := f.reserve("rome", "request-1", asked)
				before(f, r)
				time.Sleep(8 * time.Second)
				f.kill()
				time.Sleep(52*time.Second - time.Millisecond)
				f.wantPhases("Reserved paris", r)
				time.Sleep(time.Second)
				f.wantPhases("Releasing", r)
			})
		})
	}
}

// The requester shows the message of the end for as long as its request exists, so the message must
// not depend on the time.
func TestEndMessageDoesNotDependOnTime(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi")
		asked := request("2", "4Gi")
		asked.DurationSeconds = 60
		r := f.carriedOut("rome", f.reserve("rome", "request-1", asked))
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if got := f.get("rome", r.Name); got.Phase != v1.ReservationPhaseReleasing || got.Message != "its duration is over" {
			t.Errorf("%s: %q", got.Phase, got.Message)
		}
	})
}

func TestPreemptedReservationFails(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.SetConfig(t.Context(), preempting())
		f.advertise("berlin", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		victim := f.runs(f.reserve("berlin", "low", request("4", "1Gi")))
		f.reserve("rome", "high", waiting("4", "1Gi", priority(10), on("paris")))
		f.advertise("paris", "4", "8Gi")
		time.Sleep(grace)
		synctest.Wait()
		f.mustReport("berlin", victim, 1, consumer, v1.StatusReportStateGone)
		f.confirm(victim)
		if got := f.get("berlin", victim.Name); got.Phase != v1.ReservationPhaseFailed || got.EndReason != v1.ReservationEndReasonPreempted {
			t.Errorf("%s because of %s: %s", got.Phase, got.EndReason, got.Message)
		}
	})
}
