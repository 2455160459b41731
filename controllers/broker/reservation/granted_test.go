package reservation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// heldOn returns the view of a reservation for an hour whose placements are on these providers.
func heldOn(providers ...string) *views.Reservation {
	v := &views.Reservation{Phase: ledger.Active, Message: "virtual node is Ready", ProviderHasAgent: true, RequesterHasAgent: true}
	v.Name, v.Requester, v.Duration, v.Until = "res-1", "rome", time.Hour, noon.Add(time.Hour)
	v.Amounts = quantity.Amounts{"cpu": 3000, "memory": 4 << 30}
	for i, id := range providers {
		p := ledger.Placement{Number: int32(i + 1), Provider: id, AcknowledgedAt: 1, Ready: true, EverReady: true}
		phase := ledger.Ready
		if i < len(providers)-1 {
			p.Withdrawn, p.Ready, phase = ledger.Preempted, false, ledger.Withdrawing
		}
		v.Placements, v.PlacementPhases, v.Provider = append(v.Placements, p), append(v.PlacementPhases, phase), id
	}
	return v
}

func TestReservationShowsItsCost(t *testing.T) {
	v := heldOn("paris")
	v.Cost = &brokerv1alpha1.ReservationCost{PerHour: "0.8", SoFar: "0.4", Currency: "EUR"}
	if got := statusOf(v, &brokerv1alpha1.Reservation{}).Cost; got != v.Cost {
		t.Errorf("it shows %+v", got)
	}
}

func TestReservationShowsWhatIsInForce(t *testing.T) {
	changes := map[string]struct {
		change func(*views.Reservation)
		cpu    string
		until  time.Duration
	}{
		"its amounts, for its duration":     {func(*views.Reservation) {}, "3", time.Hour},
		"what is agreed while it grows":     {func(v *views.Reservation) { v.Placements[0].Amounts = quantity.Amounts{"cpu": 2000} }, "2", time.Hour},
		"until it has to make room":         {func(v *views.Reservation) { v.Notice = &ledger.Notice{Placement: 1, Ends: noon.Add(time.Minute)} }, "3", time.Minute},
		"without end while it is renewed":   {func(v *views.Reservation) { v.Duration = 0 }, "3", 0},
		"nothing while it is given back":    {func(v *views.Reservation) { v.Phase = ledger.Releasing }, "", 0},
		"nothing while it waits":            {func(v *views.Reservation) { v.Phase = ledger.Queued }, "", 0},
		"nothing once it is over":           {func(v *views.Reservation) { v.Phase = ledger.Released }, "", 0},
		"nothing once a victim is released": {func(v *views.Reservation) { v.Phase = ledger.Failed }, "", 0},
	}
	for name, tc := range changes {
		t.Run(name, func(t *testing.T) {
			v := heldOn("paris")
			tc.change(v)
			s := statusOf(v, &brokerv1alpha1.Reservation{})
			if s.Granted == nil {
				if tc.cpu != "" {
					t.Fatal("nothing is granted")
				}
			} else if got := s.Granted.Resources.Cpu().String(); got != tc.cpu {
				t.Errorf("granted %s, want %s", got, tc.cpu)
			}
			if until := (&metav1.Time{Time: noon.Add(tc.until)}); tc.until != 0 && !s.Granted.Until.Equal(until) {
				t.Errorf("until %v, want %v", s.Granted.Until, until)
			}
			if over := v.Over(); over != (s.TargetClusterID == "") {
				t.Errorf("it is over: %t, and on %q", over, s.TargetClusterID)
			}
		})
	}
}

func TestRefusedEditIsInTheMessage(t *testing.T) {
	v := heldOn("paris")
	v.Generation, v.Refusal = 2, &ledger.Refusal{Generation: 2, Reason: "paris has 12 cpu free"}
	s := statusOf(v, &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Generation: 2}})
	if want := "virtual node is Ready; the change was refused: paris has 12 cpu free"; s.Message != want {
		t.Errorf("message %q, want %q", s.Message, want)
	}
}

func TestPreemptedReservationThatMovedSaysSo(t *testing.T) {
	obj := &brokerv1alpha1.Reservation{}
	v := heldOn("paris")
	v.Warning = "it has to make room"
	obj.Status = statusOf(v, obj)
	obj.Status = statusOf(heldOn("paris", "berlin"), obj)
	c := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionPreempted)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != brokerv1alpha1.ReasonMigrated || !strings.Contains(c.Message, "berlin") {
		t.Errorf("%+v", c)
	}
}

// reconcileByHand returns a function that edits the Reservation that was made by hand, and reconciles it once.
func reconcileByHand(t *testing.T, r *Reconciler) func(edit func(*brokerv1alpha1.Reservation)) *brokerv1alpha1.Reservation {
	return func(edit func(*brokerv1alpha1.Reservation)) *brokerv1alpha1.Reservation {
		t.Helper()
		obj, key := &brokerv1alpha1.Reservation{}, client.ObjectKeyFromObject(byHand(""))
		runtest.Check(t, r.client.Get(t.Context(), key, obj))
		edit(obj)
		runtest.Check(t, r.client.Update(t.Context(), obj))
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		runtest.Check(t, r.client.Get(t.Context(), key, obj))
		return obj
	}
}

// A Reservation that was refused holds nothing, so that an edit can ask again under the same key.
func TestEditOfARefusedReservationAsksAgain(t *testing.T) {
	objects := holding(t, "first")
	r := &Reconciler{client: objects, live: objects, broker: lending(t), namespace: "broker", recorder: events.NewFakeRecorder(10), clock: clock.RealClock{}}
	reconcile := reconcileByHand(t, r)
	cpu := func(amount string, generation int64) func(*brokerv1alpha1.Reservation) {
		return func(o *brokerv1alpha1.Reservation) {
			o.Generation, o.Spec.RequestedResources[corev1.ResourceCPU] = generation, resource.MustParse(amount)
		}
	}
	if got := reconcile(cpu("100", 1)).Status; got.Phase != brokerv1alpha1.ReservationFailed || got.ObservedGeneration != 1 {
		t.Fatalf("%s, generation %d observed: %s", got.Phase, got.ObservedGeneration, got.Message)
	}
	if got := reconcile(cpu("1", 2)).Status; got.Phase != brokerv1alpha1.ReservationReserved || got.ObservedGeneration != 2 {
		t.Errorf("after the edit %s, generation %d observed: %s", got.Phase, got.ObservedGeneration, got.Message)
	}
}

// A Reservation that was granted has a key in the book, so that its next attempt needs another.
func TestEditOfAReservationThatIsOverAsksAgain(t *testing.T) {
	objects := holding(t, "first")
	b := lending(t)
	r := &Reconciler{client: objects, live: objects, broker: b, namespace: "broker", recorder: events.NewFakeRecorder(20), clock: clock.RealClock{}}
	reconcile := reconcileByHand(t, r)
	generation := func(n int64) func(*brokerv1alpha1.Reservation) {
		return func(o *brokerv1alpha1.Reservation) { o.Generation = n }
	}
	first := reconcile(generation(1)).Status
	if first.Phase != brokerv1alpha1.ReservationReserved {
		t.Fatalf("%s: %s", first.Phase, first.Message)
	}
	runtest.Check(t, b.Release(t.Context(), first.ReservationName, "", "its time is over"))
	if got := reconcile(generation(2)).Status; got.Phase != brokerv1alpha1.ReservationReleasing || got.ObservedGeneration != 1 {
		t.Fatalf("an edit during the release: %s, generation %d observed", got.Phase, got.ObservedGeneration)
	}
	gone := &v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateGone}
	runtest.Check(t, b.ReportStatus(t.Context(), first.TargetClusterID, first.ReservationName, gone))
	second := reconcile(generation(2)).Status
	if second.Phase != brokerv1alpha1.ReservationReserved || second.Attempt != 1 || second.ReservationName == first.ReservationName || second.ObservedGeneration != 2 {
		t.Fatalf("once it is over: %s, attempt %d as %q, generation %d observed: %s", second.Phase, second.Attempt, second.ReservationName, second.ObservedGeneration, second.Message)
	}
	if again := reconcile(generation(2)).Status; again.ReservationName != second.ReservationName {
		t.Errorf("it is reserved once more, as %q", again.ReservationName)
	}
	released := reconcile(func(o *brokerv1alpha1.Reservation) { o.Generation, o.Spec.Release = 3, true }).Status
	if released.Phase != brokerv1alpha1.ReservationReleasing || released.ReservationName != second.ReservationName {
		t.Errorf("released: %s, %q", released.Phase, released.ReservationName)
	}
	runtest.Check(t, b.ReportStatus(t.Context(), second.TargetClusterID, second.ReservationName, gone))
	if got := reconcile(generation(4)).Status; got.Phase != brokerv1alpha1.ReservationReleased || got.Attempt != 1 || got.ObservedGeneration != 4 {
		t.Errorf("an edit after spec.release: %s, attempt %d, generation %d observed", got.Phase, got.Attempt, got.ObservedGeneration)
	}
}
