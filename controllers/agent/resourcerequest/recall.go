package resourcerequest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// setNotice sets the conditions Preempted and Recalled according to the notice of the current
// placement. Without a notice, it sets those of them to false that were true.
func (e editor) setNotice(current *agentv1alpha1.ReservationInstruction) {
	n := current.Spec.Notice
	if n != nil && n.Reason == string(v1.NoticeReasonRecalled) {
		e.setPreempted(nil, current)
		e.setRecalled(n, current)
		return
	}
	e.setPreempted(n, current)
	e.setRecalled(nil, current)
}

// setRecalled records that the provider recalls the placement. If n is nil, it records how an
// earlier recall ended: another provider serves the request, or the recall was withdrawn.
func (e editor) setRecalled(n *agentv1alpha1.Notice, current *agentv1alpha1.ReservationInstruction) {
	const kind = agentv1alpha1.ConditionRecalled
	target := current.Spec.TargetClusterID
	switch {
	case n != nil:
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonRecallNotice, fmt.Sprintf("%s (here %s)", n.Message, n.EndsAt.UTC().Format(time.RFC3339)))
	case !meta.IsStatusConditionTrue(e.rr.Status.Conditions, kind):
	case e.hasMoved(current):
		e.setCondition(kind, metav1.ConditionFalse, agentv1alpha1.ReasonMigrated, fmt.Sprintf("%q has replaced the provider that called it back", target))
	default:
		e.setCondition(kind, metav1.ConditionFalse, agentv1alpha1.ReasonNoticeWithdrawn, fmt.Sprintf("%q no longer calls it back", target))
	}
}
