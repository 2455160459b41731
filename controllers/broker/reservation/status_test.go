package reservation

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// The warning comes once nothing of the reservation is left.
func TestReservationWithoutAnyProviderEndsFailedWithAWarning(t *testing.T) {
	const why = "paris gave it up (NeverReady) and no cluster can hold cpu=2"
	view := &broker.ReservationView{
		Reservation: ledger.Reservation{
			Reserve:   ledger.Reserve{Name: "res-1", Request: ledger.Request{Requester: "rome"}, Provider: "paris"},
			EndReason: ledger.EndFailed, History: &ledger.History{EndMessage: why},
			Placements: []ledger.Placement{{Number: 1, Provider: "paris", Withdrawn: "NeverReady", AcknowledgedAt: 1}},
		},
		ProviderHasAgent: true, RequesterHasAgent: true, Message: why,
	}
	recorder := events.NewFakeRecorder(8)
	r := &Reconciler{recorder: recorder}
	obj := &brokerv1alpha1.Reservation{}
	for _, step := range []struct {
		phase     ledger.Phase
		placement ledger.PlacementPhase
		reserved  metav1.ConditionStatus
		event     string
	}{
		{ledger.Releasing, ledger.Withdrawing, metav1.ConditionTrue, "Normal Releasing"},
		{ledger.Failed, ledger.Gone, metav1.ConditionFalse, "Warning Failed"},
	} {
		view.Phase, view.PlacementPhases = step.phase, []ledger.PlacementPhase{step.placement}
		before := obj.Status
		obj.Status = statusOf(view, obj)
		r.recordEvents(before, obj)
		if string(obj.Status.Phase) != string(step.phase) || obj.Status.Message != why {
			t.Errorf("shown as %s: %s", obj.Status.Phase, obj.Status.Message)
		}
		ready := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionReady)
		reserved := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionReserved)
		if ready.Status != metav1.ConditionFalse || ready.Reason != string(step.phase) || reserved.Status != step.reserved {
			t.Errorf("%s: Ready is %s because of %s, Reserved %s", step.phase, ready.Status, ready.Reason, reserved.Status)
		}
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if !slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, step.event) }) {
			t.Errorf("%s: events %q, want %s", step.phase, got, step.event)
		}
	}
}
