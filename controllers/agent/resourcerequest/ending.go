package resourcerequest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// endReasons maps the broker's end reasons to condition reasons.
var endReasons = map[v1.ReservationEndReason]string{
	v1.ReservationEndReasonExpired:   agentv1alpha1.ReasonExpired,
	v1.ReservationEndReasonPreempted: agentv1alpha1.ReasonPreempted,
	v1.ReservationEndReasonFailed:    agentv1alpha1.ReasonFailed,
	v1.ReservationEndReasonReleased:  agentv1alpha1.ReasonReleased,
}

// setEnding records why the virtual node goes now.
func (e editor) setEnding(reason, message string) {
	e.setCondition(agentv1alpha1.ConditionEnding, metav1.ConditionTrue, reason, message)
}

// copyEnding copies the condition Ending of the current placement, unless the end of the whole
// request is already explained. It forgets the end of a placement that the request has left.
func (e editor) copyEnding(all []agentv1alpha1.ReservationInstruction, current *agentv1alpha1.ReservationInstruction, moved bool) {
	if moved && !e.isReleasing() {
		meta.RemoveStatusCondition(&e.rr.Status.Conditions, agentv1alpha1.ConditionEnding)
	}
	old := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionEnding)
	noted := old != nil && old.Status == metav1.ConditionTrue
	said := meta.FindStatusCondition(current.Status.Conditions, agentv1alpha1.ConditionEnding)
	ends := said != nil && said.Status == metav1.ConditionTrue
	switch {
	case e.isReleasing() && (!ends || noted && old.Reason != agentv1alpha1.ReasonExpiring):
	case ends:
		e.setEnding(said.Reason, said.Message)
	case findTakeover(all, current) != nil:
		e.setEnding(agentv1alpha1.ReasonMigrating, fmt.Sprintf("%q is silent: pods are evicted from node %q once the one on %q is Ready",
			current.Spec.TargetClusterID, current.Status.NodeName, findTakeover(all, current).Spec.TargetClusterID))
	case !noted:
	case said != nil:
		e.setCondition(said.Type, said.Status, said.Reason, said.Message)
	default:
		e.setCondition(old.Type, metav1.ConditionFalse, agentv1alpha1.ReasonNoticeWithdrawn, fmt.Sprintf("node %q stays", current.Name))
	}
}

// findTakeover returns the placement that takes over from one with a silent provider, or nil if
// there is none.
func findTakeover(all []agentv1alpha1.ReservationInstruction, current *agentv1alpha1.ReservationInstruction) *agentv1alpha1.ReservationInstruction {
	if !isStanding(current) || current.Spec.ProviderSilentSince == nil {
		return nil
	}
	return otherStanding(all, current)
}

// setDrained shows how far the departing node has been drained. If several nodes depart, it shows
// the one of the newest placement. A request that goes on elsewhere shows only a drain in progress.
func (e editor) setDrained(all []agentv1alpha1.ReservationInstruction) {
	const kind = agentv1alpha1.ConditionDrained
	var newest *agentv1alpha1.ReservationInstruction
	for i := range all {
		next := &all[i]
		if meta.FindStatusCondition(next.Status.Conditions, kind) != nil && (newest == nil || next.Spec.Placement > newest.Spec.Placement) {
			newest = next
		}
	}
	ends := e.isReleasing() || isOver(e.rr.Status.Phase)
	var drain *metav1.Condition
	if newest != nil {
		drain = meta.FindStatusCondition(newest.Status.Conditions, kind)
	}
	switch {
	case drain != nil && (ends || drain.Status == metav1.ConditionFalse):
		e.setCondition(kind, drain.Status, drain.Reason, drain.Message)
	case !ends:
		// Nothing is left on the node of a former placement.
		meta.RemoveStatusCondition(&e.rr.Status.Conditions, kind)
	case meta.IsStatusConditionFalse(e.rr.Status.Conditions, kind):
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonDrained, "its virtual node is gone")
	}
}
