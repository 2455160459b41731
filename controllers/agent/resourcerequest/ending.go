package resourcerequest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func (e editor) setEnding(reason, message string) {
	e.setCondition(agentv1alpha1.ConditionEnding, metav1.ConditionTrue, reason, message)
}

// copyEnding copies the condition Ending of the current placement to the request, unless the
// request already has a condition Ending that explains its own end. If the request has moved to
// another placement, it removes the condition Ending of the previous placement.
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
	case findReplaced(all) != nil:
		e.setEnding(agentv1alpha1.ReasonMigrating, describeTakeover(all, findReplaced(all)))
	case !noted:
	case old.Reason == agentv1alpha1.ReasonMigrating && isNewest(all, current):
		meta.RemoveStatusCondition(&e.rr.Status.Conditions, agentv1alpha1.ConditionEnding) // the request has moved to another placement
	case said != nil:
		e.setCondition(said.Type, said.Status, said.Reason, said.Message)
	default:
		e.setCondition(old.Type, metav1.ConditionFalse, agentv1alpha1.ReasonNoticeWithdrawn, fmt.Sprintf("node %q stays", current.Name))
	}
}

func findReplaced(all []agentv1alpha1.ReservationInstruction) *agentv1alpha1.ReservationInstruction {
	replaced := findOldest(all, func(inst *agentv1alpha1.ReservationInstruction) bool {
		return isSilent(inst) || isStanding(inst) && isNodeLost(inst)
	})
	if replaced == nil {
		return nil
	}
	next := otherStanding(all, replaced)
	if next == nil || meta.IsStatusConditionTrue(next.Status.Conditions, agentv1alpha1.ConditionNodeReady) {
		return nil
	}
	return replaced
}

func isNewest(all []agentv1alpha1.ReservationInstruction, one *agentv1alpha1.ReservationInstruction) bool {
	return !slices.ContainsFunc(all, func(inst agentv1alpha1.ReservationInstruction) bool { return inst.Spec.Placement > one.Spec.Placement })
}

func isNodeLost(inst *agentv1alpha1.ReservationInstruction) bool {
	return inst.Status.Delivered && meta.IsStatusConditionFalse(inst.Status.Conditions, agentv1alpha1.ConditionNodeReady)
}

func describeTakeover(all []agentv1alpha1.ReservationInstruction, replaced *agentv1alpha1.ReservationInstruction) string {
	why := fmt.Sprintf("%q is silent", replaced.Spec.TargetClusterID)
	if replaced.Spec.ProviderSilentSince == nil {
		why = fmt.Sprintf("the node on %q is not Ready", replaced.Spec.TargetClusterID)
	}
	return fmt.Sprintf("%s: pods are evicted from node %q once the one on %q is Ready",
		why, replaced.Status.NodeName, otherStanding(all, replaced).Spec.TargetClusterID)
}

func (e editor) setLeaving(all []agentv1alpha1.ReservationInstruction) {
	conditions := e.rr.Status.Conditions
	ready, reserved := meta.FindStatusCondition(conditions, agentv1alpha1.ConditionReady), meta.FindStatusCondition(conditions, agentv1alpha1.ConditionReserved)
	if !e.isReleasing() || ready == nil || reserved == nil || ready.Reason != agentv1alpha1.ReasonReleasing {
		return
	}
	newest := currentOf(all)
	if newest == nil {
		return
	}
	c := meta.FindStatusCondition(newest.Status.Conditions, agentv1alpha1.ConditionReady)
	if c != nil && c.Reason == agentv1alpha1.ReasonReleasing {
		e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonReleasing, reserved.Message+"; "+c.Message)
	}
}

// setDrained sets the condition Drained, which says how far pods have been evicted from a node that
// is being removed. If several nodes are being removed, the condition describes the newest one. If
// the request continues on another node, it has the condition only until the eviction ends.
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
		// The request continues on another node, and the old one is drained.
		meta.RemoveStatusCondition(&e.rr.Status.Conditions, kind)
	case meta.IsStatusConditionFalse(e.rr.Status.Conditions, kind):
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonDrained, "its virtual node is gone")
	}
}
