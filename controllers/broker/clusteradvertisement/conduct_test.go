package clusteradvertisement

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// conditionText returns the type, status and reason of a condition in one line.
func conditionText(c *metav1.Condition) string {
	return fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
}

func TestConditionsSayWhyNothingNewIsPlaced(t *testing.T) {
	once := []metav1.Condition{
		{Type: brokerv1alpha1.ConditionReliable, Status: metav1.ConditionFalse, Reason: brokerv1alpha1.ReasonPaused},
		{Type: brokerv1alpha1.ConditionWithinGrants, Status: metav1.ConditionFalse, Reason: brokerv1alpha1.ReasonExceededGrant},
	}
	many := map[string]decision.Pause{}
	for i := range 9 {
		many[fmt.Sprint("c", i)] = decision.Pause{Why: fmt.Sprintf("3 failures in a row for c%d", i)}
	}
	tests := map[string]struct {
		view   broker.ClusterView
		before []metav1.Condition
		want   []string
		// says lists texts that the message of the first condition contains, omits texts that it does not
		// contain.
		says, omits []string
	}{
		"a cluster that never failed has neither": {},
		"a cluster that failed once and no longer": {
			before: once, want: []string{"Reliable=True Reliable", "WithinGrants=True WithinGrants"},
		},
		"a paused provider names the requesters that it failed, and the remedy": {
			view: broker.ClusterView{
				Standing: &decision.Standing{Paused: decision.Pause{Why: "5 failures in a row, tries again at 2026-11-20T10:02:00Z"}},
				Failures: map[string]int32{"rome": 2, "berlin": 3},
			},
			want: []string{"Reliable=False Paused"},
			says: []string{
				"5 failures in a row, tries again at 2026-11-20T10:02:00Z (3 for berlin, 2 for rome)",
				"annotation broker.fluidos.eu/lift-pauses",
			},
		},
		"a provider that is paused for some, of whom few are named": {
			view: broker.ClusterView{Standing: &decision.Standing{PausedFor: many}},
			want: []string{"Reliable=False PausedForSome"},
			says: []string{"for c0; 3 failures in a row for c1", "for c4; and others"}, omits: []string{"c5"},
		},
		"a cordoned cluster has failed nobody": {
			view:   broker.ClusterView{Standing: &decision.Standing{Cordoned: "is drained by the broker's administrator"}},
			before: once, want: []string{"Reliable=True Reliable", "WithinGrants=True WithinGrants"},
		},
		"a requester that one provider keeps away": {
			view: broker.ClusterView{Excess: &decision.Excess{By: map[string]string{"paris": "rome ran more than paris granted it"}}},
			want: []string{"WithinGrants=False ExceededGrant"}, says: []string{"rome ran more than paris granted it", "existing grants stay"},
		},
		"a requester that all keep away": {
			view: broker.ClusterView{Excess: &decision.Excess{All: "no cluster takes anything new of it", By: map[string]string{"paris": "paris does not"}}},
			want: []string{"WithinGrants=False ExceededGrant"}, says: []string{"no cluster takes anything new of it"}, omits: []string{"paris does not"},
		},
		"a message fits the event that repeats it": {
			view: broker.ClusterView{Standing: &decision.Standing{PausedFor: map[string]decision.Pause{"rome": {Why: strings.Repeat("x", 2000)}}}},
			want: []string{"Reliable=False PausedForSome"}, says: []string{"x…"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			obj := &brokerv1alpha1.ClusterAdvertisement{Status: brokerv1alpha1.ClusterAdvertisementStatus{Conditions: test.before}}
			got := conductConditions(&test.view, obj)
			var texts []string
			for i := range got {
				texts = append(texts, conditionText(&got[i]))
			}
			if diff := cmp.Diff(test.want, texts); diff != "" {
				t.Fatalf("conditions (-want +got):\n%s", diff)
			}
			for _, part := range test.says {
				if m := got[0].Message; !strings.Contains(m, part) || len(m) > message.MaxNote {
					t.Errorf("message %q does not say %q in %d bytes", m, part, message.MaxNote)
				}
			}
			for _, part := range test.omits {
				if m := got[0].Message; strings.Contains(m, part) {
					t.Errorf("message %q says %q", m, part)
				}
			}
		})
	}
}

func TestConditionsOfConductAreToldOnceForEachReason(t *testing.T) {
	status := func(conditions ...metav1.Condition) *brokerv1alpha1.ClusterAdvertisement {
		return &brokerv1alpha1.ClusterAdvertisement{Status: brokerv1alpha1.ClusterAdvertisementStatus{Conditions: conditions}}
	}
	reliable := func(s metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: brokerv1alpha1.ConditionReliable, Status: s, Reason: reason, Message: message}
	}
	paused, later := reliable("False", "Paused", "until ten"), reliable("False", "Paused", "until twelve")
	tests := map[string]struct {
		before, after *brokerv1alpha1.ClusterAdvertisement
		want          string
	}{
		"when a pause begins":         {status(), status(paused), "Warning Paused until ten"},
		"not when its message moves":  {status(paused), status(later), ""},
		"when its reason changes":     {status(paused), status(reliable("False", "PausedForSome", "one")), "Warning PausedForSome one"},
		"when it is over":             {status(paused), status(reliable("True", "Reliable", "none")), "Normal Reliable none"},
		"not of a condition not made": {status(), status(), ""},
		"of the other one too": {status(), status(metav1.Condition{Type: brokerv1alpha1.ConditionWithinGrants, Status: "False", Reason: "ExceededGrant", Message: "more"}),
			"Warning ExceededGrant more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			(&Reconciler{recorder: recorder}).recordConduct(test.before, test.after)
			if got := recorded(recorder); got != test.want {
				t.Errorf("events %q, want %q", got, test.want)
			}
		})
	}
}

func recorded(recorder *events.FakeRecorder) string {
	var out []string
	for len(recorder.Events) > 0 {
		out = append(out, <-recorder.Events)
	}
	return strings.Join(out, "\n")
}

// world is a broker that leads, and the objects that its controller keeps.
type world struct {
	*testing.T
	*broker.Broker
	client.Client
	reconciler *Reconciler
	recorder   *events.FakeRecorder
}

func newWorld(t *testing.T) *world {
	t.Helper()
	b := broker.New(broker.Options{Store: journaltest.NewServer().Client(), Version: "test", Log: logr.Discard(), Now: time.Now})
	b.SetConfig(t.Context(), settings.Default())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	for !b.Serving() {
		time.Sleep(time.Millisecond)
	}
	scheme := runtime.NewScheme()
	runtest.Check(t, brokerv1alpha1.AddToScheme(scheme))
	objects := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&brokerv1alpha1.ClusterAdvertisement{}).Build()
	recorder := events.NewFakeRecorder(100)
	return &world{t, b, objects, &Reconciler{
		client: objects, reader: objects, recorder: recorder, broker: b, namespace: "broker", shown: map[types.NamespacedName]figures{},
	}, recorder}
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) advertise(id string) {
	w.Helper()
	_, err := w.PublishAdvertisement(w.Context(), id, &v1.Advertisement{
		ClusterID: id, Epoch: 1, Sequence: 1, Capacity: v1.Amounts{"cpu": "64", "memory": "64Gi"}, Allocatable: v1.Amounts{"cpu": "64", "memory": "64Gi"},
	})
	w.check(err)
}

// fail makes a provider acknowledge three placements of a requester and refuse each of them
// afterwards.
func (w *world) fail(requester, provider, key string) {
	w.Helper()
	for n := range 3 {
		r, err := w.RequestReservation(w.Context(), requester, fmt.Sprintf("request-%s-%d", key, n), &v1.ReservationRequest{
			Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}, TargetClusterID: provider,
		})
		w.check(err)
		for _, state := range []v1.StatusReportState{v1.StatusReportStateAcknowledged, v1.StatusReportStateRefused} {
			w.check(w.ReportStatus(w.Context(), provider, r.Name, &v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleProvider, State: state}))
		}
	}
}

// reconcile returns condition Reliable of a cluster's object, "" without one.
func (w *world) reconcile(name types.NamespacedName) string {
	w.Helper()
	_, err := w.reconciler.Reconcile(w.Context(), ctrl.Request{NamespacedName: name})
	w.check(err)
	obj := &brokerv1alpha1.ClusterAdvertisement{}
	w.check(w.Get(w.Context(), name, obj))
	c := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionReliable)
	if c == nil {
		return ""
	}
	return conditionText(c)
}

func (w *world) annotate(name types.NamespacedName, mark string) {
	w.Helper()
	obj := &brokerv1alpha1.ClusterAdvertisement{}
	w.check(w.Get(w.Context(), name, obj))
	obj.Annotations = map[string]string{brokerv1alpha1.LiftPausesAnnotation: mark}
	w.check(w.Update(w.Context(), obj))
}

func TestAnnotationLiftsPausesOnce(t *testing.T) {
	w := newWorld(t)
	w.advertise("rome")
	w.advertise("paris")
	paris := types.NamespacedName{Namespace: "broker", Name: "paris"}
	w.reconcile(paris)
	w.fail("rome", "paris", "first")
	if got, want := w.reconcile(paris), "Reliable=False PausedForSome"; got != want {
		t.Fatalf("after three failures %q, want %q", got, want)
	}
	recorded(w.recorder)

	w.annotate(paris, "2026-11-20: replaced its switch")
	if got, want := w.reconcile(paris), "Reliable=True Reliable"; got != want {
		t.Errorf("once the pauses are lifted %q, want %q", got, want)
	}
	if got := recorded(w.recorder); !strings.Contains(got, "PausesLifted an administrator lifted the pauses of cluster paris") {
		t.Errorf("events %q", got)
	}
	w.fail("rome", "paris", "second")
	if got, want := w.reconcile(paris), "Reliable=False PausedForSome"; got != want {
		t.Errorf("after later failures with the same annotation %q, want %q", got, want)
	}
	w.annotate(paris, strings.Repeat("a very long reason ", 50))
	if got, want := w.reconcile(paris), "Reliable=True Reliable"; got != want {
		t.Errorf("with another value, however long, %q, want %q", got, want)
	}
}

func TestOnlyOwnAdvertisementLiftsPauses(t *testing.T) {
	w := newWorld(t)
	w.advertise("rome")
	w.advertise("paris")
	w.fail("rome", "paris", "first")
	other := &brokerv1alpha1.ClusterAdvertisement{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "mine", Annotations: map[string]string{brokerv1alpha1.LiftPausesAnnotation: "please"}},
		Spec:       brokerv1alpha1.ClusterAdvertisementSpec{ClusterID: "paris"},
	}
	w.check(w.Create(w.Context(), other))
	if got, want := w.reconcile(client.ObjectKeyFromObject(other)), "Reliable=False PausedForSome"; got != want {
		t.Errorf("with the annotation on another object %q, want %q", got, want)
	}
}
