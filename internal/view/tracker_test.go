package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func TestChangesAreTold(t *testing.T) {
	active := *reservation("first", brokerv1alpha1.ReservationActive, condition("Ready", "True", "Active", 0, "in use"))
	queued := *reservation("first", brokerv1alpha1.ReservationQueued, condition("Ready", "False", "Queued", 0, "waits"))
	queued.Status.Message = "waits for capacity"
	rewritten := *active.DeepCopy()
	rewritten.Status.Conditions[0].Message = "still in use"
	deleting := *active.DeepCopy()
	deleting.DeletionTimestamp = new(ago(0))
	failed := *reservation("first", brokerv1alpha1.ReservationFailed, condition("Ready", "False", "NoCandidate", 0, "nobody has room"))
	cases := map[string]struct {
		before *brokerv1alpha1.Reservation
		after  brokerv1alpha1.Reservation
		want   []string
	}{
		"a new object":                  {nil, active, []string{"12:00:00  broker rsv/first  made Active", "12:00:00  broker rsv/first  Ready True (Active)  in use"}},
		"another phase":                 {&active, queued, []string{"12:00:00  broker rsv/first  Active -> Queued  waits for capacity", "12:00:00  broker rsv/first  [Warning]Ready False (Queued)  waits"}},
		"a failure":                     {&active, failed, []string{"12:00:00  broker rsv/first  [Failure]Active -> Failed", "12:00:00  broker rsv/first  [Warning]Ready False (NoCandidate)  nobody has room"}},
		"only other words":              {&active, rewritten, nil},
		"the beginning of its deletion": {&active, deleting, []string{"12:00:00  broker rsv/first  is being deleted"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tracker := NewTracker()
			if tc.before != nil {
				tracker.Remember(tc.before)
			}
			if diff := cmp.Diff(tc.want, describeAll(tracker.Observe(&tc.after, noon))); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if again := tracker.Observe(&tc.after, noon); again != nil {
				t.Errorf("the same state again gives %v", describeAll(again))
			}
		})
	}
}

func describeAll(changes []Change) (lines []string) {
	paint := func(l Level, text string) string {
		if l == Normal {
			return text
		}
		return "[" + string(l) + "]" + text
	}
	for i := range changes {
		lines = append(lines, changes[i].Describe(paint))
	}
	return lines
}

func TestDeletedObjectsAreTold(t *testing.T) {
	r := reservation("first", brokerv1alpha1.ReservationActive)
	tracker := NewTracker()
	tracker.Remember(r)
	want := []string{"12:00:00  broker rsv/first  is gone"}
	if diff := cmp.Diff(want, describeAll(tracker.Forget(r, noon))); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if got := tracker.Observe(&metav1.Status{}, noon); got != nil {
		t.Errorf("an object of another kind gives %v", got)
	}
}

func TestWatchedNamesSelectChanges(t *testing.T) {
	r := reservation("first", brokerv1alpha1.ReservationActive)
	cases := map[string]bool{"first": true, "res-first": true, "res-first-2": true, "rsv/first": true, "second": false, "rreq/first": false}
	for name, want := range cases {
		query, _ := ParseQuery(name, "")
		if got := Concerns(r, query); got != want {
			t.Errorf("%s concerns the reservation: %v, want %v", name, got, want)
		}
	}
}

func TestCostGrowsUntilItIsRead(t *testing.T) {
	cases := map[string]struct {
		cost brokerv1alpha1.ReservationCost
		want string
	}{
		"half an hour after the last change":   {brokerv1alpha1.ReservationCost{PerHour: "0.84", SoFar: "0.1", AsOf: new(ago(30 * time.Minute)), Currency: "EUR"}, "0.84 EUR per hour, 0.52 EUR so far"},
		"before the provider acknowledged":     {brokerv1alpha1.ReservationCost{PerHour: "0.84", SoFar: "0", ToEnd: "1.68", Currency: "EUR"}, "0.84 EUR per hour, 0 EUR so far, 1.68 EUR to the end"},
		"after the end":                        {brokerv1alpha1.ReservationCost{SoFar: "1.68", AsOf: new(ago(time.Hour)), Currency: "EUR"}, "1.68 EUR so far"},
		"with earlier providers":               {brokerv1alpha1.ReservationCost{SoFar: "1", Currency: "EUR", Earlier: []brokerv1alpha1.EarlierCost{{Amount: "2", Currency: "USD"}}}, "1 EUR so far, 2 USD at earlier providers"},
		"without a price for one resource":     {brokerv1alpha1.ReservationCost{PerHour: "0.84", SoFar: "0", Currency: "EUR", NotPriced: []string{"nvidia.com/gpu"}}, "0.84 EUR per hour, 0 EUR so far, nvidia.com/gpu not priced"},
		"by a clock that is ahead of this one": {brokerv1alpha1.ReservationCost{PerHour: "0.84", SoFar: "0.1", AsOf: new(ago(-time.Minute)), Currency: "EUR"}, "0.84 EUR per hour, 0.1 EUR so far"},
	}
	s := &Snapshot{At: noon}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, s.describeCost(&tc.cost, nil)); diff != "" {
				t.Errorf("cost (-want +got):\n%s", diff)
			}
		})
	}
}
