package broker

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
)

// inQueueDisaster runs test in a state in which rome waits for capacity on paris, which berlin
// holds. old is that state, to restore it later.
func inQueueDisaster(t *testing.T, cpu string, test func(f *fleet, old *journaltest.Server, holder, waits *v1.Reservation)) {
	t.Helper()
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("berlin", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		holder := f.carriedOut("berlin", f.reserve("berlin", "key-0001", asked("4")))
		waits := f.reserve("rome", "key-0001", waiting(cpu, "1Gi", patient(600)))
		test(f, f.server.Clone(), holder, waits)
	})
}

// A restored state may show capacity as free that is in use. No waiting request gets such capacity
// before the provider has announced what it holds.
func TestRestoredBrokerWaitsForAnnouncements(t *testing.T) {
	inQueueDisaster(t, "8", func(f *fleet, old *journaltest.Server, holder, waits *v1.Reservation) {
		f.advertise("paris", "8", "16Gi")
		second := f.carriedOut("berlin", f.reserve("berlin", "key-0002", asked("4"))) // the restored book will not contain it
		cursor := f.poll("rome", "").Cursor
		f.restore(old)
		if list := f.poll("rome", cursor); !list.Announce {
			t.Fatal("a cursor from the future is not noticed")
		}
		f.advertise("paris", "12", "16Gi")
		f.wantPhases("Queued 1", waits)
		f.announce("rome", nil, v1.ConsumedReservation{Reservation: waits.Name, Key: "key-0001", Request: *waiting("8", "1Gi", patient(600))})
		f.announce("berlin", nil, wanted(holder, "key-0001", asked("4")), wanted(second, "key-0002", asked("4")))
		f.wantPhases("Queued 1", waits)
		f.announce("paris", append(provided(holder, "berlin"), provided(second, "berlin")...))
		time.Sleep(time.Second)
		f.wantPhases("Queued 1, Active paris, Active paris", waits, holder, second)
		if got := f.get("rome", waits.Name).Queue; !got.Since.Equal(waits.Queue.Since) || got.RemainingSeconds >= 600-60 {
			t.Errorf("it waits as %+v, since %s before", got, waits.Queue.Since)
		}
		f.advertise("paris", "16", "16Gi")
		f.wantPhases("Reserved paris", waits)
	})
}

// A waiting request was served in the lost part of the journal. When its provider announces the
// placement, the broker knows the grant again under the reservation's name, and the reservation no
// longer waits.
func TestServedWaitingRequestIsAdoptedAfterARestore(t *testing.T) {
	inQueueDisaster(t, "4", func(f *fleet, old *journaltest.Server, holder, waits *v1.Reservation) {
		f.giveBack(holder)
		f.wantPhases("Reserved paris", waits)
		f.carriedOut("rome", f.get("rome", waits.Name))
		granted := f.get("rome", waits.Name)
		cursor := f.poll("rome", "").Cursor
		f.restore(old)
		f.poll("rome", cursor)
		f.advertise("paris", "4", "8Gi")
		f.announce("berlin", nil)
		f.announce("paris", provided(granted, "rome"))
		f.announce("rome", nil, wanted(granted, "key-0001", waiting("4", "1Gi", patient(600))))
		synctest.Wait()
		got := f.get("rome", waits.Name)
		if got.Phase != v1.ReservationPhaseActive || got.Queue != nil || target(got) != "paris" || len(got.Placements) != 1 {
			t.Errorf("%s %+v: %s", got.Phase, got.Placements, got.Message)
		}
	})
}

// A restarted broker serves no request before it has heard from the clusters. Then waiting requests
// get free capacity before a reservation that has lost its placement.
func TestMoveDoesNotJumpQueue(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.offerByHand("oslo", 4, 8)
		moves := f.reserve("rome", "request-1", waiting("4", "1Gi"))
		f.advertise("paris", "1", "8Gi")
		first := f.reserve("rome", "request-2", waiting("4", "1Gi", on("paris")))
		paris, rome := f.poll("paris", "").Cursor, f.poll("rome", "").Cursor
		time.Sleep(16 * time.Second) // now the journal could have been restored
		f.kill()
		f.Witness("paris", paris)
		f.advertise("paris", "4", "8Gi")
		f.mustReport("oslo", moves, 1, provider, v1.StatusReportStateRefused)
		f.Witness("rome", rome)
		f.advertise("rome", "1", "1Gi")
		f.wantPhases("Reserved paris", first)
		f.carriedOut("rome", f.get("rome", first.Name))
		time.Sleep(recovery.ListenGrace)
		f.wantPhases("Queued 1, Active paris", moves, first)
	})
}

// If the broker dies while a request waits, the wait ends at the same time as planned.
func TestQueueTimeoutSurvivesRestart(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "1", "1Gi")
		r := f.reserve("rome", "key-0001", waiting("4", "1Gi", patient(90)))
		time.Sleep(30 * time.Second)
		f.kill()
		if got := f.get("rome", r.Name).Queue; got == nil || got.RemainingSeconds != 60 || !got.Since.Equal(r.Queue.Since) {
			t.Fatalf("it waits as %+v, %s before", got, r.Queue.Since)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		f.wantPhases("Queued 1", r)
		time.Sleep(time.Nanosecond)
		f.wantPhases("Failed", r)
	})
}

// After a restore, the requester's announcement tells the broker again how the request wants to be
// served. So the reservation waits when its provider gives it up.
func TestClaimedRequestStillWaitsInTheQueue(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "4", "8Gi")
		empty := f.server.Clone()
		request := waiting("4", "1Gi", patient(90))
		r := f.carriedOut("rome", f.reserve("rome", "key-0001", request))
		cursor := f.poll("rome", "").Cursor
		f.restore(empty)
		f.poll("rome", cursor)
		f.advertise("paris", "4", "8Gi")
		f.announce("paris", provided(r, "rome"))
		f.announce("rome", nil, wanted(r, "key-0001", request))
		f.wantPhases("Active paris", r)
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
		f.wantPhases("Queued 1", r)
		if got := f.get("rome", r.Name).Queue; got == nil || got.RemainingSeconds != 90 {
			t.Errorf("it waits as %+v, want 90s as it asked for", got)
		}
	})
}
