package reservation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func TestEachFactHasOneEvent(t *testing.T) {
	status := func(phase brokerv1alpha1.ReservationPhase, placements []brokerv1alpha1.Placement, conditions ...metav1.Condition) brokerv1alpha1.ReservationStatus {
		return brokerv1alpha1.ReservationStatus{Phase: phase, Placements: placements, Conditions: conditions}
	}
	is := func(kind string, s metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: s, Reason: reason}
	}
	on := func(reasons ...string) (placements []brokerv1alpha1.Placement) {
		for i, reason := range reasons {
			placements = append(placements, brokerv1alpha1.Placement{Number: int32(i + 1), Reason: reason})
		}
		return placements
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	active := status(brokerv1alpha1.ReservationActive, on(""))
	tests := map[string]struct {
		was, is brokerv1alpha1.ReservationStatus
		want    []string
	}{
		"nothing":                     {active, active, nil},
		"it becomes Active":           {status(brokerv1alpha1.ReservationReserved, on("")), active, []string{"Normal Active"}},
		"its network was awaited":     {status(brokerv1alpha1.ReservationReserved, on(""), is(brokerv1alpha1.ConditionNetworkConnected, no, "NetworkPending")), status(brokerv1alpha1.ReservationActive, on(""), is(brokerv1alpha1.ConditionNetworkConnected, yes, "NetworkConnected")), []string{"Normal Active"}},
		"its node is lost":            {active, status(brokerv1alpha1.ReservationReserved, on(""), is(brokerv1alpha1.ConditionNodeReady, no, "NodeNotReady")), []string{"Warning NodeNotReady"}},
		"its node is back":            {status(brokerv1alpha1.ReservationReserved, on(""), is(brokerv1alpha1.ConditionNodeReady, no, "NodeNotReady")), status(brokerv1alpha1.ReservationActive, on(""), is(brokerv1alpha1.ConditionNodeReady, yes, "NodeReady")), []string{"Normal Active"}},
		"it moves, nobody was silent": {status(brokerv1alpha1.ReservationReserved, on("")), status(brokerv1alpha1.ReservationReserved, on("Unacknowledged", "")), []string{"Warning PlacementMoved"}},
		"it moves from a lost node":   {active, status(brokerv1alpha1.ReservationReserved, on("NodeNotReady", ""), is(brokerv1alpha1.ConditionNodeReady, no, "Migrating")), []string{"Warning Migrating"}},
		"it moves from a lost node of a silent provider": {
			status(brokerv1alpha1.ReservationReserved, on(""), is(brokerv1alpha1.ConditionProviderReachable, no, "ProviderSilent"), is(brokerv1alpha1.ConditionNodeReady, no, "NodeNotReady")),
			status(brokerv1alpha1.ReservationReserved, on("", ""), is(brokerv1alpha1.ConditionProviderReachable, no, "Migrating"), is(brokerv1alpha1.ConditionNodeReady, no, "Migrating")),
			[]string{"Warning Migrating"},
		},
		"it has left a silent provider that recalled it": {
			status(brokerv1alpha1.ReservationActive, on("", ""), is(brokerv1alpha1.ConditionRecalled, yes, "RecallNotice"), is(brokerv1alpha1.ConditionProviderReachable, no, "Migrating")),
			status(brokerv1alpha1.ReservationActive, on("Recalled", ""), is(brokerv1alpha1.ConditionRecalled, no, "Migrated"), is(brokerv1alpha1.ConditionProviderReachable, yes, "Migrated")),
			[]string{"Normal Migrated"},
		},
		"it is preempted and queued": {active, status(brokerv1alpha1.ReservationQueued, on("Preempted"), is(brokerv1alpha1.ConditionPreempted, yes, "Preempted")), []string{"Warning Preempted"}},
		"it is preempted and ends":   {active, status(brokerv1alpha1.ReservationReleasing, on("Preempted"), is(brokerv1alpha1.ConditionPreempted, yes, "Preempted")), []string{"Warning Preempted"}},
		"then nothing is left":       {status(brokerv1alpha1.ReservationReleasing, on("Preempted"), is(brokerv1alpha1.ConditionPreempted, yes, "Preempted")), status(brokerv1alpha1.ReservationFailed, on("Preempted"), is(brokerv1alpha1.ConditionPreempted, yes, "Preempted")), []string{"Warning Failed"}},
		"it is released":             {active, status(brokerv1alpha1.ReservationReleasing, on("")), []string{"Normal Releasing"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range changedFacts(test.was, test.is) {
				got = append(got, f.kind+" "+f.reason)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}
