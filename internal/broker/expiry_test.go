package broker

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// The extra time that agents get after the broker was away, to acknowledge and to become Ready,
// does not extend a requested duration.
func TestADurationEndsOnTimeAfterTheBrokerWasAway(t *testing.T) {
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
				synctest.Wait()
				if got := f.get("rome", r.Name).Phase; got != v1.ReservationPhaseReserved {
					t.Errorf("phase %s before its time is over, want Reserved", got)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if got := f.get("rome", r.Name).Phase; got != v1.ReservationPhaseReleasing {
					t.Errorf("phase %s one second after its time, want Releasing", got)
				}
			})
		})
	}
}
