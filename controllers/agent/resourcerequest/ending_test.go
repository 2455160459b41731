package resourcerequest

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// says returns an edit that sets a condition of a placement, as its controller does.
func says(kind string, status metav1.ConditionStatus, reason, message string) func(*agentv1alpha1.ReservationInstruction) {
	return func(inst *agentv1alpha1.ReservationInstruction) {
		meta.SetStatusCondition(&inst.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func (b *bench) expectCondition(when, kind string, want metav1.ConditionStatus, reason string) {
	b.Helper()
	c := meta.FindStatusCondition(b.request().Status.Conditions, kind)
	if c == nil || c.Status != want || c.Reason != reason {
		b.Errorf("%s: %s is %+v, want %s because of %s", when, kind, c, want, reason)
	}
}

func (b *bench) expectNoCondition(when, kind string) {
	b.Helper()
	if c := meta.FindStatusCondition(b.request().Status.Conditions, kind); c != nil {
		b.Errorf("%s: %s is %+v, want none", when, kind, c)
	}
}

func TestEndOfPlacementIsShown(t *testing.T) {
	b := newBench(t, withDuration(time.Hour))
	b.after(0)
	b.carriedOut(nodeReady)
	b.after(time.Second)
	b.heard()
	if c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionEnding); c != nil {
		t.Errorf("no end is near: %+v", c)
	}
	b.node(1, says(agentv1alpha1.ConditionEnding, metav1.ConditionTrue, agentv1alpha1.ReasonExpiring, "soon"))
	b.expectCondition("near its end", agentv1alpha1.ConditionEnding, metav1.ConditionTrue, agentv1alpha1.ReasonExpiring)
	b.expectEvent("Warning Expiring soon")
	b.node(1, says(agentv1alpha1.ConditionEnding, metav1.ConditionFalse, agentv1alpha1.ReasonNoticeWithdrawn, "it stays"))
	b.expectCondition("extended", agentv1alpha1.ConditionEnding, metav1.ConditionFalse, agentv1alpha1.ReasonNoticeWithdrawn)
	b.expectEvent("Normal NoticeWithdrawn")
	b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
}

func TestReleasedRequestShowsItsDrain(t *testing.T) {
	for reason, give := range map[string]func(*bench){
		agentv1alpha1.ReasonDeleted: (*bench).delete,
		agentv1alpha1.ReasonReleased: func(b *bench) {
			rr := b.request()
			rr.Spec.Release = true
			b.write(b.client.Update(b.Context(), rr))
		},
	} {
		t.Run(reason, func(t *testing.T) {
			b := newBench(t)
			b.after(0)
			b.carriedOut(nodeReady)
			b.after(time.Second)
			give(b)
			b.after(time.Second)
			b.heard()
			b.expectCondition("given back", agentv1alpha1.ConditionEnding, metav1.ConditionTrue, reason)
			b.node(1, says(agentv1alpha1.ConditionDrained, metav1.ConditionFalse, agentv1alpha1.ReasonDrainBlocked, "2 pods left"))
			b.expectCondition("drained", agentv1alpha1.ConditionDrained, metav1.ConditionFalse, agentv1alpha1.ReasonDrainBlocked)
			if s := b.request().Status; s.Message != "2 pods left" {
				t.Errorf("message %q", s.Message)
			}
			b.expectEvent("Warning DrainBlocked")
			b.node(1, says(agentv1alpha1.ConditionDrained, metav1.ConditionTrue, agentv1alpha1.ReasonDrained, "no pod is left"))
			b.expectCondition("drained", agentv1alpha1.ConditionDrained, metav1.ConditionTrue, agentv1alpha1.ReasonDrained)
			if s := b.request().Status; strings.Contains(s.Message, "pods left") {
				t.Errorf("message %q though nobody is left", s.Message)
			}
			b.expectCondition("drained", agentv1alpha1.ConditionEnding, metav1.ConditionTrue, reason)
		})
	}
}

func TestWhyTheBrokerEndsAReservationIsShown(t *testing.T) {
	for end, want := range map[v1.ReservationEndReason]string{
		v1.ReservationEndReasonExpired:   agentv1alpha1.ReasonExpired,
		v1.ReservationEndReasonPreempted: agentv1alpha1.ReasonPreempted,
		v1.ReservationEndReasonFailed:    agentv1alpha1.ReasonFailed,
		v1.ReservationEndReasonReleased:  agentv1alpha1.ReasonReleased,
	} {
		t.Run(string(end), func(t *testing.T) {
			b := newBench(t)
			rr := b.request()
			b.editStatus(rr).setEnded(&v1.Reservation{EndReason: end, Message: "so it is"})
			c := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionEnding)
			if c == nil || c.Status != metav1.ConditionTrue || c.Reason != want {
				t.Errorf("%+v, want %s", c, want)
			}
			// The reason on the ReservationInstruction is less specific and does not replace the
			// reason of the reservation's end.
			inst := &agentv1alpha1.ReservationInstruction{}
			says(agentv1alpha1.ConditionEnding, metav1.ConditionTrue, agentv1alpha1.ReasonReleased, "given back")(inst)
			b.editStatus(rr).copyEnding(nil, inst, false)
			if c := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionEnding); c.Reason != want {
				t.Errorf("then it says %+v", c)
			}
		})
	}
}

func TestDepartingNodeIsReported(t *testing.T) {
	b, _ := active(t)
	b.silent(1, new(metav1.NewTime(b.clock.Now())))
	if c := meta.FindStatusCondition(b.request().Status.Conditions, agentv1alpha1.ConditionEnding); c != nil {
		t.Errorf("nobody takes over: %+v", c)
	}
	b.beside("berlin")
	b.expectCondition("another provider prepares", agentv1alpha1.ConditionEnding, metav1.ConditionTrue, agentv1alpha1.ReasonMigrating)
	b.node(2, nodeReady)
	b.expectNoCondition("it is Ready", agentv1alpha1.ConditionEnding)
	b.give(1)
	b.node(1, says(agentv1alpha1.ConditionDrained, metav1.ConditionFalse, agentv1alpha1.ReasonDraining, "1 pod left"))
	b.expectCondition("the old node is left", agentv1alpha1.ConditionDrained, metav1.ConditionFalse, agentv1alpha1.ReasonDraining)
	if s := b.request().Status; s.Phase != agentv1alpha1.RequestActive || s.Message == "1 pod left" {
		t.Errorf("phase %s, message %q: it runs elsewhere", s.Phase, s.Message)
	}
	old := b.placement(1)
	old.Finalizers = nil
	b.write(b.client.Update(b.Context(), old))
	b.write(b.client.Delete(b.Context(), old))
	b.expectNoCondition("the old node is gone", agentv1alpha1.ConditionDrained)
}

func TestReleasingRequestSaysWhatItWaitsFor(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.carriedOut(nodeReady)
	b.after(time.Second)
	b.delete()
	b.after(time.Second)
	b.node(1, says(agentv1alpha1.ConditionDrained, metav1.ConditionTrue, agentv1alpha1.ReasonDrained, "no pod is left"))
	b.node(1, says(agentv1alpha1.ConditionReady, metav1.ConditionFalse, agentv1alpha1.ReasonReleasing, "waiting until Liqo has removed node 1"))
	if s := b.request().Status; !strings.HasSuffix(s.Message, "; waiting until Liqo has removed node 1") || !strings.HasPrefix(s.Message, "the broker has released") {
		t.Errorf("message %q", s.Message)
	}
}
