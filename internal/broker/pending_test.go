package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// advertisePending advertises rome with a pending demand.
func (f *fleet) advertisePending(pending *v1.PendingDemand) error {
	f.t.Helper()
	f.sequence++
	amounts := v1.Amounts{"cpu": "8", "memory": "16Gi"}
	_, err := f.PublishAdvertisement(context.Background(), "rome", &v1.Advertisement{
		ClusterID: "rome", Epoch: 1, Sequence: f.sequence, Capacity: amounts, Allocatable: amounts, Allocated: v1.Amounts{}, Pending: pending,
	})
	return err
}

func pendingFor(seconds int64, cpu string) *v1.PendingDemand {
	return &v1.PendingDemand{Requests: v1.Amounts{"pods": "3", "cpu": cpu}, WaitingSeconds: seconds}
}

func TestPendingDemandIsShownAndNeverRecorded(t *testing.T) {
	inFleet(t, func(f *fleet) {
		runtest.Check(t, f.advertisePending(nil))
		position := f.session.journal.Anchor().Position
		began := time.Now()
		for _, step := range []struct {
			name    string
			after   time.Duration
			pending *v1.PendingDemand
			want    offers.Demand
		}{
			{"pods wait", time.Minute, pendingFor(60, "40"), offers.Demand{Requests: quantity.Amounts{"pods": 3, "cpu": 40_000}, Since: began}},
			{"a message took longer", 30 * time.Second, pendingFor(85, "40"), offers.Demand{Requests: quantity.Amounts{"pods": 3, "cpu": 40_000}, Since: began}},
			{"a request changed little", 30 * time.Second, pendingFor(120, "40500m"), offers.Demand{Requests: quantity.Amounts{"pods": 3, "cpu": 40_000}, Since: began}},
			{"a request changed", 30 * time.Second, pendingFor(150, "41"), offers.Demand{Requests: quantity.Amounts{"pods": 3, "cpu": 41_000}, Since: began}},
			{"the oldest pod has left", 30 * time.Second, pendingFor(60, "41"), offers.Demand{Requests: quantity.Amounts{"pods": 3, "cpu": 41_000}, Since: began.Add(2 * time.Minute)}},
			{"no pod waits", 30 * time.Second, nil, offers.Demand{}},
			{"nothing is requested", 30 * time.Second, &v1.PendingDemand{Requests: v1.Amounts{"cpu": "0"}}, offers.Demand{}},
		} {
			time.Sleep(step.after)
			if err := f.advertisePending(step.pending); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			view, err := f.Cluster(context.Background(), "rome")
			runtest.Check(t, err)
			if diff := cmp.Diff(step.want, view.Pending); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
		if now := f.session.journal.Anchor().Position; now != position {
			t.Errorf("the journal grew from %d to %d", position, now)
		}
	})
}

func TestImpossiblePendingDemandIsRefused(t *testing.T) {
	many := v1.Amounts{}
	for i := range 33 {
		many[fmt.Sprintf("example.com/%d", i)] = "1"
	}
	for name, test := range map[string]struct {
		pending *v1.PendingDemand
		want    string
	}{
		"a negative amount":   {pendingFor(1, "-1"), `advertisement of "rome": pending: resource "cpu": "-1" is negative`},
		"an absurd amount":    {pendingFor(1, "1e30"), `advertisement of "rome": pending: resource "cpu": "1e30" is too large: no cluster has more than 4611686018427387`},
		"an endless exponent": {pendingFor(1, "1e2147483647"), `advertisement of "rome": pending: resource "cpu": "1e2147483647" is not a quantity such as 500m, 4Gi or 2`},
		"too many resources":  {&v1.PendingDemand{Requests: many}, `advertisement of "rome": pending: 33 resources are named: at most 32 are accepted`},
		"a wait since never":  {pendingFor(1<<62, "1"), `advertisement of "rome": pending: waitingSeconds 4611686018427387904 is not between 0 and 315360000 (ten years)`},
		"a wait that begins":  {pendingFor(-1, "1"), `advertisement of "rome": pending: waitingSeconds -1 is not between 0 and 315360000 (ten years)`},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				err := f.advertisePending(test.pending)
				if err == nil || err.Error() != test.want || fault.ReasonOf(err) != fault.Invalid {
					t.Errorf("got  %v\nwant %s", err, test.want)
				}
			})
		})
	}
}
