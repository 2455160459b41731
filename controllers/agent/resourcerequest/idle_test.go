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

func TestRequestShowsThatItIsIdle(t *testing.T) {
	e := editor{rr: &agentv1alpha1.ResourceRequest{}, now: time.Now()}
	shown := func() (*metav1.Condition, *metav1.Time) {
		return meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionIdle), e.rr.Status.IdleSince
	}
	current := &agentv1alpha1.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Name: "res-a-1"}, Spec: agentv1alpha1.ReservationInstructionSpec{TargetClusterID: "paris"}}
	e.setIdle(current)
	if c, since := shown(); c != nil || since != nil {
		t.Fatalf("before it was idle: %+v since %v", c, since)
	}
	since := metav1.NewTime(time.Date(2026, 6, 1, 10, 0, 0, 0, time.UTC))
	current.Spec.Idle = &agentv1alpha1.IdleTime{Since: since}
	e.setIdle(current)
	if c, at := shown(); c == nil || c.Status != metav1.ConditionTrue || at == nil || !at.Equal(&since) || strings.Contains(c.Message, "released") ||
		!strings.Contains(c.Message, `nobody uses the capacity since 2026-06-01T10:00:00Z: no pod is on node "res-a-1", and "paris" reports no usage`) {
		t.Errorf("when it is told: %+v since %v", c, at)
	}
	current.Spec.Idle.ReleaseAt = &metav1.Time{Time: since.Add(2 * time.Hour)}
	e.setIdle(current)
	if c, _ := shown(); !strings.HasSuffix(c.Message, "it is released at 2026-06-01T12:00:00Z unless a pod runs there before") {
		t.Errorf("before the release: %s", c.Message)
	}
	current.Spec.Idle = nil
	e.setIdle(current)
	if c, at := shown(); c.Status != metav1.ConditionFalse || c.Reason != agentv1alpha1.ReasonInUse || at != nil {
		t.Errorf("with a pod: %+v since %v", c, at)
	}
}

func TestRequestSaysThatItWasReleasedAsIdle(t *testing.T) {
	e := editor{rr: &agentv1alpha1.ResourceRequest{}, now: time.Now()}
	e.setEnded(&v1.Reservation{Phase: v1.ReservationPhaseReleasing, EndReason: v1.ReservationEndReasonIdle, Message: "nobody used it since noon"})
	c, ending := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionIdle), meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionEnding)
	if c == nil || c.Status != metav1.ConditionTrue || c.Message != "nobody used it since noon" {
		t.Errorf("condition Idle: %+v", c)
	}
	if ending == nil || ending.Reason != agentv1alpha1.ReasonIdle || !strings.HasSuffix(ending.Message, "nobody used it since noon") {
		t.Errorf("condition Ending: %+v", ending)
	}
	if e.rr.Status.Phase != agentv1alpha1.RequestReleasing {
		t.Errorf("phase %s", e.rr.Status.Phase)
	}
}
