package resourcerequest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// notices are the conditions that the notice of a placement sets to true, with the reason, and what their messages say
// about the provider once the request has left it.
var notices = []struct {
	recalls            bool
	kind, reason, left string
}{
	{false, agentv1alpha1.ConditionPreempted, agentv1alpha1.ReasonNotice, "where it had to make room"},
	{true, agentv1alpha1.ConditionRecalled, agentv1alpha1.ReasonRecallNotice, "that called it back"},
}

// setNotice sets the conditions Preempted and Recalled according to the notice of the current
// placement. Those that were true and no longer apply become false, and their reason says why.
func (e editor) setNotice(current *agentv1alpha1.ReservationInstruction) {
	for _, row := range notices {
		n, old := current.Spec.Notice, meta.FindStatusCondition(e.rr.Status.Conditions, row.kind)
		switch {
		case n != nil && (n.Reason == string(v1.NoticeReasonRecalled)) == row.recalls:
			e.setCondition(row.kind, metav1.ConditionTrue, row.reason, fmt.Sprintf("%s (here %s)", n.Message, n.EndsAt.UTC().Format(time.RFC3339)))
		case old == nil || old.Status != metav1.ConditionTrue:
		case old.Reason == agentv1alpha1.ReasonPreempted:
			e.setCondition(row.kind, metav1.ConditionFalse, agentv1alpha1.ReasonReserved, "it has capacity again")
		case e.hasMoved(current):
			e.setCondition(row.kind, metav1.ConditionFalse, agentv1alpha1.ReasonMigrated, fmt.Sprintf("%q has replaced the provider %s", current.Spec.TargetClusterID, row.left))
		default:
			e.setCondition(row.kind, metav1.ConditionFalse, agentv1alpha1.ReasonNoticeWithdrawn, fmt.Sprintf("%q has withdrawn its notice", current.Spec.TargetClusterID))
		}
	}
}

// setExcess sets the condition WithinGrant to false if the provider has evicted pods that exceeded
// the grant. The condition stays false until another provider serves the request.
func (e editor) setExcess(current *agentv1alpha1.ReservationInstruction) {
	const kind = agentv1alpha1.ConditionWithinGrant
	target := current.Spec.TargetClusterID
	switch x := current.Spec.Excess; {
	case x != nil:
		e.setCondition(kind, metav1.ConditionFalse, agentv1alpha1.ReasonExceedsGrant, wire.ExcessMessage(target, x))
	case meta.IsStatusConditionFalse(e.rr.Status.Conditions, kind):
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonWithinGrant, fmt.Sprintf("%q serves it now", target))
	}
}

// setIdle copies the idle time of the current placement into the condition Idle and status.idleSince. A request that
// was never idle does not get the condition.
func (e editor) setIdle(current *agentv1alpha1.ReservationInstruction) {
	const kind = agentv1alpha1.ConditionIdle
	e.rr.Status.IdleSince = nil
	idle := current.Spec.Idle
	switch {
	case idle != nil:
		e.rr.Status.IdleSince = &idle.Since
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonIdle, describeIdle(current))
	case meta.IsStatusConditionTrue(e.rr.Status.Conditions, kind):
		e.setCondition(kind, metav1.ConditionFalse, agentv1alpha1.ReasonInUse, "pods use the capacity, or it moves, or the provider or the broker does not answer")
	}
}

func describeIdle(current *agentv1alpha1.ReservationInstruction) string {
	idle := current.Spec.Idle
	text := fmt.Sprintf("nobody uses the capacity since %s: no pod is on node %q, and %q reports no usage", idle.Since.UTC().Format(time.RFC3339), current.Name, current.Spec.TargetClusterID)
	if idle.ReleaseAt == nil {
		return text + "; to stop paying for it, delete the request or set spec.release"
	}
	return fmt.Sprintf("%s; it is released at %s unless a pod runs there before", text, idle.ReleaseAt.UTC().Format(time.RFC3339))
}
