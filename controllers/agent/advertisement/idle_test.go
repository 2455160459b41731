package advertisement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
)

// usedPlacement returns the instruction of a placement. ready is the status of its condition
// NodeReady.
func usedPlacement(name string, ready metav1.ConditionStatus, release bool) *agentv1alpha1.ReservationInstruction {
	return &agentv1alpha1.ReservationInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-1"},
		Spec:       agentv1alpha1.ReservationInstructionSpec{ReservationName: name, Placement: 1, Release: release},
		Status: agentv1alpha1.ReservationInstructionStatus{Conditions: []metav1.Condition{{
			Type: agentv1alpha1.ConditionNodeReady, Status: ready, Reason: "Test", LastTransitionTime: metav1.Unix(1, 0),
		}}},
	}
}

func TestVacantNodesAreReportedOnlyIfTheBrokerAsks(t *testing.T) {
	b := newBench(t, usedPlacement("res-a", metav1.ConditionTrue, false))
	b.figures.guests = map[string]capacity.Guests{"res-a-1": {}}
	publish := func() []v1.Vacancy {
		b.after(interval)
		all := b.broker.Advertised()
		return all[len(all)-1].Vacant
	}
	if got := publish(); got != nil {
		t.Errorf("reported without being asked: %v", got)
	}
	b.broker.Receipt = &v1.AdvertisementReceipt{ReportVacant: true}
	publish() // the answer to this advertisement asks for vacant nodes
	for i := range 3 {
		want := []v1.Vacancy{{Reservation: "res-a", Placement: 1, Seconds: float64(i) * interval.Seconds()}}
		if diff := cmp.Diff(want, publish()); diff != "" {
			t.Errorf("advertisement %d (-want +got):\n%s", i, diff)
		}
	}
	b.figures.guests["res-a-1"] = capacity.Guests{Came: 1}
	if got := publish(); len(got) != 1 || got[0].Seconds != 0 {
		t.Errorf("after a pod came and went: %v", got)
	}
	b.figures.guests["res-a-1"] = capacity.Guests{Now: 1, Came: 2}
	if got := publish(); len(got) != 0 {
		t.Errorf("with a pod: %v", got)
	}
	b.broker.Receipt = &v1.AdvertisementReceipt{}
	b.figures.guests["res-a-1"] = capacity.Guests{Came: 2}
	publish()
	if got := publish(); got != nil {
		t.Errorf("reported although the broker no longer asks: %v", got)
	}
}

func TestOnlyReadyNodesOfStandingPlacementsCanBeVacant(t *testing.T) {
	b := newBench(t,
		usedPlacement("res-ready", metav1.ConditionTrue, false), usedPlacement("res-unready", metav1.ConditionFalse, false),
		usedPlacement("res-ended", metav1.ConditionTrue, true), usedPlacement("res-unknown", metav1.ConditionTrue, false))
	b.figures.guests = map[string]capacity.Guests{"res-ready-1": {Came: 7}, "res-unready-1": {}, "res-ended-1": {}}
	b.vacancies.wanted = true
	b.after(time.Second)
	if diff := cmp.Diff([]v1.Vacancy{{Reservation: "res-ready", Placement: 1}}, b.broker.Advertised()[0].Vacant); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
