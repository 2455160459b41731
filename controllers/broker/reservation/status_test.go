package reservation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

// The warning comes once nothing of the reservation is left.
func TestReservationWithoutAnyProviderEndsFailedWithAWarning(t *testing.T) {
	const why = "paris gave it up (NeverReady) and no cluster can hold cpu=2"
	view := &views.Reservation{
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

func TestStatusShowsThatTheNetworkIsSetUp(t *testing.T) {
	const at = ledger.Instant(time.Second)
	view := func(phase ledger.Phase, state ledger.PlacementPhase, by int64) *views.Reservation {
		v := &views.Reservation{
			Reservation: ledger.Reservation{
				Reserve:    ledger.Reserve{Name: "res-1", Request: ledger.Request{Requester: "rome"}, Provider: "paris"},
				Placements: []ledger.Placement{{Number: 1, Provider: "paris", AcknowledgedAt: at}},
			},
			Phase: phase, PlacementPhases: []ledger.PlacementPhase{state}, ProviderHasAgent: true, RequesterHasAgent: true,
		}
		if by != 0 {
			v.ConnectBy = time.Unix(by, 0)
		}
		return v
	}
	tests := map[string]struct {
		steps []*views.Reservation
		want  []string
	}{
		"it is connected": {
			[]*views.Reservation{view(ledger.Reserved, ledger.Acknowledged, 0), view(ledger.Reserved, ledger.Connecting, 3600), view(ledger.Active, ledger.Ready, 0)},
			[]string{"Acknowledged", "Connecting False NetworkPending: the network between rome and paris is being set up; after 1970-01-01T01:00:00Z the next provider is tried", "Ready True NetworkConnected: the network between rome and paris was connected in time"},
		},
		"it is not, and the placement is given up": {
			[]*views.Reservation{view(ledger.Reserved, ledger.Connecting, 3600), view(ledger.Reserved, ledger.Assigned, 0)},
			[]string{"Connecting False NetworkPending: the network between rome and paris is being set up; after 1970-01-01T01:00:00Z the next provider is tried", "Assigned"},
		},
		"nobody waited for it": {[]*views.Reservation{view(ledger.Active, ledger.Ready, 0)}, []string{"Ready"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			recorder, obj := events.NewFakeRecorder(8), &brokerv1alpha1.Reservation{}
			r := &Reconciler{recorder: recorder}
			var got []string
			for _, v := range test.steps {
				before := obj.Status
				obj.Status = statusOf(v, obj)
				r.recordEvents(before, obj)
				shown := string(obj.Status.Placements[0].State)
				if c := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionNetworkConnected); c != nil {
					shown += " " + string(c.Status) + " " + c.Reason + ": " + c.Message
				}
				got = append(got, shown)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
			var told []string
			for len(recorder.Events) > 0 {
				if e := <-recorder.Events; strings.Contains(e, "Network") {
					told = append(told, strings.Join(strings.Fields(e)[:2], " "))
				}
			}
			if strings.Contains(test.want[0], "Network") != (len(told) > 0 && told[0] == "Normal NetworkPending") && len(test.steps) == 2 {
				t.Errorf("events %q", told)
			}
		})
	}
}

func TestStatusShowsThatTheNodeIsNoLongerReady(t *testing.T) {
	const at = ledger.Instant(time.Second)
	lost := ledger.Placement{Number: 1, Provider: "paris", AcknowledgedAt: at, EverReady: true, NodeSince: at}
	fresh := ledger.Placement{Number: 2, Provider: "berlin", AcknowledgedAt: at}
	ready, left := fresh, lost
	ready.Ready, ready.EverReady, left.Withdrawn = true, true, ledger.NodeLost
	steps := []struct {
		phase      ledger.Phase
		placements []ledger.Placement
		want       string
	}{
		{ledger.Reserved, []ledger.Placement{lost}, "False NodeNotReady"},
		{ledger.Reserved, []ledger.Placement{lost, fresh}, "False Migrating"},
		{ledger.Active, []ledger.Placement{left, ready}, "True NodeReady"},
	}
	recorder, obj := events.NewFakeRecorder(8), &brokerv1alpha1.Reservation{}
	r := &Reconciler{recorder: recorder}
	for _, step := range steps {
		v := &views.Reservation{
			Reservation: ledger.Reservation{Reserve: ledger.Reserve{Name: "res-1", Request: ledger.Request{Requester: "rome"}}, Placements: step.placements},
			Phase:       step.phase, PlacementPhases: make([]ledger.PlacementPhase, len(step.placements)), ProviderHasAgent: true, RequesterHasAgent: true,
		}
		if len(step.placements) == 1 {
			v.UnreadySince, v.MoveAt = time.Unix(0, 0), time.Unix(300, 0)
		}
		before := obj.Status
		obj.Status = statusOf(v, obj)
		r.recordEvents(before, obj)
		got := ""
		if c := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionNodeReady); c != nil {
			got = string(c.Status) + " " + c.Reason
		}
		if got != step.want {
			t.Errorf("%s with %+v: NodeReady is %q, want %q", step.phase, step.placements, got, step.want)
		}
	}
	warned := false
	for len(recorder.Events) > 0 {
		warned = strings.HasPrefix(<-recorder.Events, "Warning NodeNotReady the virtual node on paris has not been Ready since 1970-01-01T00:00:00Z; after 1970-01-01T00:05:00Z") || warned
	}
	if !warned {
		t.Error("no event warns that the node is not Ready")
	}
}

// The CRD allows 32 placements in the status.
func TestStatusListsTheNewestAndStandingPlacements(t *testing.T) {
	view := func(phases ...ledger.PlacementPhase) *views.Reservation {
		v := &views.Reservation{PlacementPhases: phases, Reservation: ledger.Reservation{Reserve: ledger.Reserve{Name: "res-1", Provider: "paris"}}}
		for i := range phases {
			v.Placements = append(v.Placements, ledger.Placement{Number: int32(i + 1), Provider: "paris", Withdrawn: "Unacknowledged"})
		}
		return v
	}
	gone := func(n int) []ledger.PlacementPhase { return slices.Repeat([]ledger.PlacementPhase{ledger.Gone}, n) }
	for name, tc := range map[string]struct {
		view    *views.Reservation
		first   []int32
		earlier int32
	}{
		"32 are listed":                              {view(gone(32)...), []int32{1, 2}, 0},
		"the oldest of 33 that are gone is not":      {view(gone(33)...), []int32{2, 3}, 1},
		"an older one that still holds capacity is":  {view(append([]ledger.PlacementPhase{ledger.Withdrawing}, gone(99)...)...), []int32{1, 70}, 68},
		"the oldest is not if all 33 hold something": {view(slices.Repeat([]ledger.PlacementPhase{ledger.Withdrawing}, 33)...), []int32{2, 3}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got := statusOf(tc.view, &brokerv1alpha1.Reservation{})
			if len(got.Placements) != 32 || got.EarlierPlacements != tc.earlier {
				t.Fatalf("%d are listed, %d earlier ones, want 32 and %d", len(got.Placements), got.EarlierPlacements, tc.earlier)
			}
			if first := []int32{got.Placements[0].Number, got.Placements[1].Number}; !slices.Equal(first, tc.first) {
				t.Errorf("the list begins with %d, want %d", first, tc.first)
			}
			if newest := newestPlacement(got); newest != int32(len(tc.view.Placements)) {
				t.Errorf("the list ends with %d", newest)
			}
		})
	}
}

func TestMoveAfterTheListIsFullIsAnEvent(t *testing.T) {
	recorder := events.NewFakeRecorder(8)
	r := &Reconciler{recorder: recorder}
	view := &views.Reservation{Reservation: ledger.Reservation{Reserve: ledger.Reserve{Name: "res-1", Provider: "paris"}}}
	for n := range int32(40) {
		view.Placements = append(view.Placements, ledger.Placement{Number: n + 1, Provider: "paris", Withdrawn: "Unacknowledged"})
		view.PlacementPhases = append(view.PlacementPhases, ledger.Gone)
	}
	obj := &brokerv1alpha1.Reservation{}
	obj.Status = statusOf(view, obj)
	before := obj.Status
	view.Placements = append(view.Placements, ledger.Placement{Number: 41, Provider: "berlin"})
	view.PlacementPhases = append(view.PlacementPhases, ledger.Assigned)
	view.Provider = "berlin"
	obj.Status = statusOf(view, obj)
	r.recordEvents(before, obj)
	for len(recorder.Events) > 0 {
		if e := <-recorder.Events; strings.Contains(e, "placement 41 on berlin: paris gave it up") {
			return
		}
	}
	t.Error("no event of the move")
}
