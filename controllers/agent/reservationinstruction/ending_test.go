package reservationinstruction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// noon is the present time in these tests.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// lead is how long before the expiry of a reservation the condition Ending announces it in these tests.
const lead = 10 * time.Minute

func expires(in time.Duration) func(*agentv1alpha1.ReservationInstruction) {
	return func(i *agentv1alpha1.ReservationInstruction) { i.Spec.ExpiresAt = new(metav1.NewTime(noon.Add(in))) }
}

func release(i *agentv1alpha1.ReservationInstruction) { i.Spec.Release = true }

func preempt(i *agentv1alpha1.ReservationInstruction) {
	i.Spec.Notice = &agentv1alpha1.Notice{Reason: "Preempted", EndsAt: metav1.NewTime(noon.Add(time.Minute)), Message: "a request of priority 9 needs the room"}
}

func givenUp(reason string) func(*agentv1alpha1.ReservationInstruction) {
	return func(i *agentv1alpha1.ReservationInstruction) { i.Spec.Reason = reason }
}

func requested(i *agentv1alpha1.ReservationInstruction) {
	i.Spec.RequestRef = &agentv1alpha1.RequestReference{Namespace: "team", Name: "mine", UID: "u"}
}

// noted returns an edit that sets the condition Ending, as an earlier pass would.
func noted(reason string) func(*agentv1alpha1.ReservationInstruction) {
	return func(i *agentv1alpha1.ReservationInstruction) {
		i.Status.Conditions = []metav1.Condition{{Type: agentv1alpha1.ConditionEnding, Status: metav1.ConditionTrue, Reason: reason, Message: "said before"}}
	}
}

func TestEndIsAnnounced(t *testing.T) {
	type edits []func(*agentv1alpha1.ReservationInstruction)
	tests := map[string]struct {
		edits edits
		// want is status, reason and message; empty for no condition.
		want  string
		again time.Duration
	}{
		"what is renewed has no end":        {},
		"a duration that is far from over":  {edits: edits{expires(time.Hour)}, again: 50 * time.Minute},
		"a duration that is over soon":      {edits: edits{expires(lead), requested}, want: `True Expiring the duration ends at 2026-06-01T12:10:00Z: pods are evicted from node "res-a-1" before it is removed; to keep the capacity, raise spec.duration: kubectl edit resourcerequest mine -n team`},
		"one that the broker's cluster set": {edits: edits{expires(time.Minute)}, want: `True Expiring the duration ends at 2026-06-01T12:01:00Z: pods are evicted from node "res-a-1" before it is removed; to keep the capacity, raise spec.duration of Reservation "res-a" in the broker's cluster`},
		"without a node": {
			edits: edits{expires(time.Minute), requested, func(i *agentv1alpha1.ReservationInstruction) { i.Status.NodeName = "" }},
			want:  `True Expiring the duration ends at 2026-06-01T12:01:00Z: its capacity is released; to keep the capacity, raise spec.duration: kubectl edit resourcerequest mine -n team`,
		},
		"a duration that was raised takes it back": {
			edits: edits{expires(time.Hour), noted(agentv1alpha1.ReasonExpiring)},
			want:  `False NoticeWithdrawn the placement stays until 2026-06-01T13:00:00Z`, again: 50 * time.Minute,
		},
		"a duration that was taken out, too": {edits: edits{noted(agentv1alpha1.ReasonExpiring)}, want: `False NoticeWithdrawn the placement stays`},
		"a higher priority": {
			edits: edits{preempt}, want: `True Preempted it ends at 2026-06-01T12:01:00Z: pods are evicted from node "res-a-1" before it is removed; a request of priority 9 needs the room`,
		},
		"it is given back":                {edits: edits{release}, want: `True Released the placement was released: pods are evicted from node "res-a-1" before it is removed`},
		"given back ahead of its expiry":  {edits: edits{release, expires(time.Minute), noted(agentv1alpha1.ReasonExpiring)}, want: `True Released the placement was released: pods are evicted from node "res-a-1" before it is removed`},
		"the duration is over":            {edits: edits{release, expires(0), noted(agentv1alpha1.ReasonExpiring)}, want: `True Expired the duration is over: pods are evicted from node "res-a-1" before it is removed`},
		"it has made room":                {edits: edits{release, noted(agentv1alpha1.ReasonPreempted)}, want: `True Preempted the placement made room: pods are evicted from node "res-a-1" before it is removed`},
		"another provider has taken over": {edits: edits{release, givenUp(agentv1alpha1.ReasonProviderLost)}, want: `True Migrated "paris" is silent, and another provider has taken over: pods are evicted from node "res-a-1" before it is removed`},
		"another provider has taken over from a node that was not Ready": {
			edits: edits{release, givenUp(agentv1alpha1.ReasonNodeNotReady)},
			want:  `True Migrated the node on "paris" was not Ready, and another provider has taken over: pods are evicted from node "res-a-1" before it is removed`,
		},
		"the provider was removed from the broker": {
			edits: edits{release, givenUp("ProviderForgotten")},
			want:  `True ProviderForgotten "paris" was removed from the broker: pods are evicted from node "res-a-1" before it is removed`,
		},
		"the broker gave it up for another reason": {edits: edits{release, givenUp("NeverReady")}, want: `True Released the broker gave up the placement on "paris" (NeverReady): pods are evicted from node "res-a-1" before it is removed`},
		"why it ended stays": {
			edits: edits{release, expires(-time.Hour), noted(agentv1alpha1.ReasonReleased), func(i *agentv1alpha1.ReservationInstruction) { i.Status.Phase = agentv1alpha1.InstructionReleasing }},
			want:  `True Released said before`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inst := newInstruction()
			inst.Status.NodeName = "res-a-1"
			for _, edit := range test.edits {
				edit(inst)
			}
			before := inst.DeepCopy()
			describeEnding(inst, &before.Status, lead, noon)
			got := ""
			if c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionEnding); c != nil {
				got = strings.Join([]string{string(c.Status), c.Reason, c.Message}, " ")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
			if again := untilNotice(inst, lead, noon); again != test.again {
				t.Errorf("looks again in %v, want %v", again, test.again)
			}
		})
	}
}

func TestExpiryIsNotAnnouncedWithoutNotice(t *testing.T) {
	inst := newInstruction()
	expires(time.Second)(inst)
	before := inst.DeepCopy()
	describeEnding(inst, &before.Status, 0, noon)
	if len(inst.Status.Conditions) > 0 || untilNotice(inst, 0, noon) != never {
		t.Errorf("conditions %+v, looks again in %v", inst.Status.Conditions, untilNotice(inst, 0, noon))
	}
}

// An instruction records an event each time its end comes near, and one when an extension then postpones the end. If it
// serves a ResourceRequest, it records neither, because the request gets these events instead.
func TestEventsReportTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*agentv1alpha1.ReservationInstruction)
		want []string
	}{
		"of a Reservation":                          {edit: func(*agentv1alpha1.ReservationInstruction) {}, want: []string{"Warning Expiring", "Normal NoticeWithdrawn", "Warning Expiring"}},
		"of a ResourceRequest, which has them then": {edit: requested},
	} {
		t.Run(name, func(t *testing.T) {
			inst := newInstruction()
			test.edit(inst)
			r := newReconciler(t, &broker{}, inst)
			recorder := events.NewFakeRecorder(8)
			r.opts.Clock, r.opts.Recorder = clocktesting.NewFakePassiveClock(noon), recorder
			for _, in := range []time.Duration{time.Minute, time.Minute, time.Hour, time.Hour, 5 * time.Minute} {
				runtest.Check(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst))
				expires(in)(inst)
				runtest.Check(t, r.client.Update(t.Context(), inst))
				step(t, r)
			}
			var got []string
			for len(recorder.Events) > 0 {
				words := strings.Fields(<-recorder.Events)
				got = append(got, words[0]+" "+words[1])
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWaitingPodsGetAnEventPerMessage(t *testing.T) {
	inst := newInstruction()
	r := newReconciler(t, &broker{}, inst)
	recorder := events.NewFakeRecorder(8)
	r.opts.Recorder, r.opts.Peering = recorder, &liqo.Peering{}
	pod := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "demo", Name: "p", UID: "p-uid"}
	rejected := func(message string) placement.Aspect {
		return placement.Waiting(agentv1alpha1.ReasonPodsRejected, "%s", message)
	}
	healthy := placement.Aspect{True: true, Reason: agentv1alpha1.ReasonHealthy}
	for _, state := range []plan.ConsumerState{
		{Health: rejected("limits are missing"), Concerned: pod}, {Health: rejected("limits are missing"), Concerned: pod},
		{Health: rejected("no room"), Concerned: pod}, {Health: healthy}, {Health: rejected("the pod cannot be read")},
	} {
		runtest.Check(t, r.writeStatus(t.Context(), inst, state, noon))
	}
	var got []string
	for len(recorder.Events) > 0 {
		got = append(got, <-recorder.Events)
	}
	if diff := cmp.Diff([]string{"Warning PodsRejected limits are missing", "Warning PodsRejected no room"}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
