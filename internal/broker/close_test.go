package broker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// The provider has freed everything, and the consumer is silent. The reservation does not wait for
// the consumer's confirmation, which may never come. If the consumer returns, it gets its
// instruction, and the broker forgets the reservation once the consumer confirms.
func TestSilentConsumerDelaysNoRelease(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "4", "8Gi")
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("1", "1Gi"))
		f.mustReport("paris", r, 1, v1.StatusReportRoleProvider, v1.StatusReportStateAcknowledged)
		runtest.Check(t, f.Release(context.Background(), r.Name, "", "its Reservation was deleted"))
		f.mustReport("paris", r, 1, v1.StatusReportRoleProvider, v1.StatusReportStateGone)
		phase := func(after time.Duration, want v1.ReservationPhase) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := f.get("paris", r.Name); got.Phase != want {
				t.Fatalf("%s later it is %s: %s, want %s", after, got.Phase, got.Message, want)
			}
		}
		phase(settings.Default().StaleThreshold-time.Second, v1.ReservationPhaseReleasing)
		phase(2*time.Second, v1.ReservationPhaseReleased)
		if message := f.get("paris", r.Name).Message; !strings.Contains(message, "rome, which is silent") {
			t.Errorf("message %q", message)
		}
		f.kill()
		phase(retain+time.Second, v1.ReservationPhaseReleased)

		f.advertise("rome", "4", "8Gi")
		list, err := f.FetchInstructions(context.Background(), "rome", "", 0)
		if err != nil || len(list.Instructions) != 1 || list.Instructions[0].State != v1.InstructionStateRelease {
			t.Fatalf("rome is told %+v, %v", list, err)
		}
		f.mustReport("rome", r, 1, v1.StatusReportRoleConsumer, v1.StatusReportStateGone)
		time.Sleep(time.Second)
		synctest.Wait()
		if again, err := f.Reservation(context.Background(), r.Name); again != nil || err != nil {
			t.Errorf("it is in the book still: %+v, %v", again, err)
		}
	})
}
