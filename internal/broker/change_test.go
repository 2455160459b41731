package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// lasting returns a request for 2 CPUs and 4 GiB with a duration.
func lasting(d time.Duration) *v1.ReservationRequest {
	req := request("2", "4Gi")
	req.DurationSeconds = int64(d / time.Second)
	return req
}

func (f *fleet) change(id, nameOrKey string, generation int64, d time.Duration) (*v1.Reservation, error) {
	return f.ChangeReservation(context.Background(), id, nameOrKey,
		&v1.ReservationChange{Generation: generation, DurationSeconds: int64(d / time.Second)})
}

// The duration is changed ten minutes after an hour was granted. left is what remains after the
// change; 0 if the reservation is renewed instead.
func TestDurationIsChanged(t *testing.T) {
	tests := map[string]struct {
		generation int64
		duration   time.Duration
		reason     fault.Reason
		left       time.Duration
	}{
		"longer":                     {2, 3 * time.Hour, "", 170 * time.Minute},
		"shorter":                    {2, 11 * time.Minute, "", time.Minute},
		"as long as it is renewed":   {2, 0, "", 0},
		"so short that it was over":  {2, 10 * time.Minute, fault.Invalid, 50 * time.Minute},
		"too short for anybody":      {2, time.Second, fault.Invalid, 50 * time.Minute},
		"longer than the admin lets": {2, 5 * time.Hour, fault.Invalid, 50 * time.Minute},
		"with an old generation":     {0, 3 * time.Hour, fault.Conflict, 50 * time.Minute},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				config := settings.Default()
				config.Bounds.Duration = 4 * time.Hour
				f.SetConfig(context.Background(), config)
				f.advertise("paris", "16", "64Gi")
				r := f.reserve("rome", "request-1", lasting(time.Hour))
				f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
				time.Sleep(10 * time.Minute)
				got, err := f.change("rome", r.Name, tc.generation, tc.duration)
				if fault.ReasonOf(err) != tc.reason {
					t.Fatalf("got %v, want reason %q", err, tc.reason)
				}
				if err != nil {
					got = f.get("rome", r.Name)
				}
				switch {
				case tc.left == 0 && got.RemainingSeconds != nil:
					t.Errorf("%v s left of what is renewed", *got.RemainingSeconds)
				case tc.left != 0 && (got.RemainingSeconds == nil || *got.RemainingSeconds != tc.left.Seconds()):
					t.Errorf("%v s left, want %v", got.RemainingSeconds, tc.left.Seconds())
				}
				if tc.left == 0 {
					return
				}
				time.Sleep(tc.left - time.Millisecond)
				if got := f.get("rome", r.Name); got.Phase != v1.ReservationPhaseReserved {
					t.Errorf("%s before its time was over", got.Phase)
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
				if got := f.get("rome", r.Name); got.Phase == v1.ReservationPhaseReserved {
					t.Errorf("still %s when its time was over", got.Phase)
				}
			})
		})
	}
}

func TestChangeIsMadeOnceAndSurvivesRestart(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", lasting(time.Hour))
		for range 2 {
			if _, err := f.change("rome", "request-1", 2, 2*time.Hour); err != nil {
				t.Fatal(err)
			}
			f.kill()
		}
		if got := f.get("rome", r.Name); *got.RemainingSeconds != (2 * time.Hour).Seconds() {
			t.Errorf("%v s left, want two hours", *got.RemainingSeconds)
		}
		if again := f.reserve("rome", "request-1", lasting(2*time.Hour)); again.Name != r.Name {
			t.Errorf("the changed request gave %s, want %s", again.Name, r.Name)
		}
		f.wantRefusal("rome", "request-1", lasting(time.Hour), fault.KeyReused)
	})
}

func TestOnlyRequesterChangesReservation(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", lasting(time.Hour))
		ended := f.reserve("rome", "request-2", lasting(time.Hour))
		f.release("rome", ended.Name)
		for what, tc := range map[string]struct {
			who, name string
			want      fault.Reason
		}{
			"the provider":         {"paris", r.Name, fault.Forbidden},
			"a stranger":           {"oslo", r.Name, fault.NotFound},
			"nobody's reservation": {"rome", "request-3", fault.NotFound},
			"one that has ended":   {"rome", ended.Name, fault.Released},
		} {
			if _, err := f.change(tc.who, tc.name, 2, 2*time.Hour); fault.ReasonOf(err) != tc.want {
				t.Errorf("%s: %v, want %s", what, err, tc.want)
			}
		}
	})
}

// A requester that repeats a request with another duration is refused, but the repetition renews
// its reservation.
func TestRefusedChangeKeepsRenewedReservation(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		for range 5 {
			time.Sleep(lease / 2)
			f.wantRefusal("rome", "request-1", lasting(time.Hour), fault.KeyReused)
		}
		f.wantPhases("Reserved paris", r)
	})
}

// reserveObject reserves as a Reservation object of rome would, and returns the request and the
// reservation.
func (f *fleet) reserveObject(asked *v1.ReservationRequest) (*requests.Request, *views.Reservation) {
	f.t.Helper()
	q, err := requests.Read("rome", "unused", asked)
	runtest.Check(f.t, err)
	q.Object = &ledger.ObjectRef{Namespace: "default", Name: "r", UID: "uid-1"}
	view, err := f.ReserveObject(context.Background(), *q)
	runtest.Check(f.t, err)
	return q, view
}

func TestChangesFollowObjectGeneration(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		request, view := f.reserveObject(lasting(time.Hour))
		for range 2 {
			changed, err := f.ChangeObject(context.Background(), view.Name, "", 3, 0, request.Amounts)
			runtest.Check(t, err)
			view = changed
		}
		if want := settings.Default().DefaultTTL; view.Duration != want || view.Generation != 3 {
			t.Errorf("held for %s by generation %d, want the default %s by 3", view.Duration, view.Generation, want)
		}
	})
}
