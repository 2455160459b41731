package reservation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// fact is a change that an event reports.
type fact struct {
	kind, reason, action, message string
}

func (r *Reconciler) recordEvents(was brokerv1alpha1.ReservationStatus, after *brokerv1alpha1.Reservation) {
	for _, f := range changedFacts(was, after.Status) {
		r.recorder.Eventf(after, nil, f.kind, f.reason, f.action, "%s", message.Clip(f.message, message.MaxNote))
	}
}

// changedFacts returns what changed, and reports each change once: it leaves out a phase that only follows from a
// condition, a condition that only follows from the phase, and all but the first of several conditions with the same
// reason.
func changedFacts(was, is brokerv1alpha1.ReservationStatus) []fact {
	var facts []fact
	becameActive := is.Phase != was.Phase && is.Phase == brokerv1alpha1.ReservationActive
	for _, of := range conditionsWithEvents {
		c := message.ChangedCondition(is.Conditions, was.Conditions, of.condition)
		if of.condition == brokerv1alpha1.ConditionChanged {
			c = editedCondition(was, is) // every edit is reported, even if its outcome is the same as before
		}
		if c == nil || becameActive && of.ofNode && c.Status == metav1.ConditionTrue ||
			slices.ContainsFunc(facts, func(f fact) bool { return f.reason == c.Reason }) {
			continue
		}
		facts = append(facts, fact{kindOf(c, of.bad), c.Reason, of.action, c.Message})
	}
	if moved := movedFact(was, is); moved != nil && !slices.ContainsFunc(facts, fact.explainsMove) {
		facts = append(facts, *moved)
	}
	if is.Phase != was.Phase && (len(facts) == 0 || !isConsequence(is.Phase)) {
		kind := corev1.EventTypeNormal
		if is.Phase == brokerv1alpha1.ReservationFailed {
			kind = corev1.EventTypeWarning
		}
		facts = append(facts, fact{kind, string(is.Phase), "Transition", is.Message})
	}
	return facts
}

// conditionsWithEvents lists the conditions whose changes cause events. If a condition changes to the status in the
// field bad, the event is a warning. The field ofNode marks conditions that are true whenever the phase is Active.
var conditionsWithEvents = []struct {
	condition string
	bad       metav1.ConditionStatus
	action    string
	ofNode    bool
}{
	{brokerv1alpha1.ConditionChanged, metav1.ConditionFalse, "Change", false},
	{brokerv1alpha1.ConditionPreempted, metav1.ConditionTrue, "Preempt", false},
	{brokerv1alpha1.ConditionRecalled, metav1.ConditionTrue, "Recall", false},
	{brokerv1alpha1.ConditionIdle, metav1.ConditionTrue, "Watch", false},
	{brokerv1alpha1.ConditionProviderReachable, metav1.ConditionFalse, "Reach", false},
	{brokerv1alpha1.ConditionNodeReady, metav1.ConditionFalse, "Watch", true},
	{brokerv1alpha1.ConditionNetworkConnected, "", "Connect", true}, // waiting is normal
}

// isConsequence reports whether a change to this phase needs no event if a condition has changed as well: the event
// about the condition names the cause.
func isConsequence(p brokerv1alpha1.ReservationPhase) bool {
	return p == brokerv1alpha1.ReservationReserved || p == brokerv1alpha1.ReservationQueued || p == brokerv1alpha1.ReservationReleasing
}

// explainsMove reports whether the fact says why the reservation has another provider.
func (f fact) explainsMove() bool {
	return f.reason == brokerv1alpha1.ReasonMigrating || f.reason == brokerv1alpha1.ReasonMigrated
}

// movedFact returns the move to another provider, nil if there was none.
func movedFact(was, is brokerv1alpha1.ReservationStatus) *fact {
	n := len(is.Placements)
	if n < 2 || newestPlacement(is) <= newestPlacement(was) || is.Placements[n-2].Reason == "" {
		return nil
	}
	return &fact{corev1.EventTypeWarning, brokerv1alpha1.ReasonMoved, "Move", fmt.Sprintf("placement %d on %s: %s gave it up (%s)",
		newestPlacement(is), is.TargetClusterID, is.Placements[n-2].ClusterID, is.Placements[n-2].Reason)}
}

// newestPlacement returns the number of the newest placement, or 0 if there is none.
func newestPlacement(s brokerv1alpha1.ReservationStatus) int32 {
	if len(s.Placements) == 0 {
		return 0
	}
	return s.Placements[len(s.Placements)-1].Number
}

// kindOf returns the kind of a condition's event: a warning if the condition has the status bad.
func kindOf(c *metav1.Condition, bad metav1.ConditionStatus) string {
	if c.Status == bad {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// editedCondition returns the condition Changed if any of its fields has changed, nil otherwise.
func editedCondition(was, is brokerv1alpha1.ReservationStatus) *metav1.Condition {
	c, old := meta.FindStatusCondition(is.Conditions, brokerv1alpha1.ConditionChanged), meta.FindStatusCondition(was.Conditions, brokerv1alpha1.ConditionChanged)
	if c == nil || old != nil && *c == *old {
		return nil
	}
	return c
}
