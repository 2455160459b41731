package resourcerequest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
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
