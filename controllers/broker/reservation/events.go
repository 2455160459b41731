package reservation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// recordEvents records an event for each change of phase or condition and for each move to another provider.
func (r *Reconciler) recordEvents(was brokerv1alpha1.ReservationStatus, after *brokerv1alpha1.Reservation) {
	is := after.Status
	if was.Phase != is.Phase {
		kind := corev1.EventTypeNormal
		if is.Phase == brokerv1alpha1.ReservationFailed {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(after, nil, kind, string(is.Phase), "Transition", "%s", message.Clip(is.Message, message.MaxNote))
	}
	if c, old := changedCondition(is), changedCondition(was); c != nil && (old == nil || *c != *old) {
		r.recordCondition(after, c, metav1.ConditionFalse, "Change")
	}
	for _, of := range []struct {
		condition string
		bad       metav1.ConditionStatus
		action    string
	}{
		{brokerv1alpha1.ConditionPreempted, metav1.ConditionTrue, "Preempt"},
		{brokerv1alpha1.ConditionRecalled, metav1.ConditionTrue, "Recall"},
		{brokerv1alpha1.ConditionProviderReachable, metav1.ConditionFalse, "Reach"},
		{brokerv1alpha1.ConditionNodeReady, metav1.ConditionFalse, "Watch"},
		{brokerv1alpha1.ConditionNetworkConnected, "", "Connect"}, // waiting is normal
	} {
		if c := message.ChangedCondition(is.Conditions, was.Conditions, of.condition); c != nil {
			r.recordCondition(after, c, of.bad, of.action)
		}
	}
	n := len(is.Placements)
	if n > 1 && newestPlacement(is) > newestPlacement(was) && is.Placements[n-2].Reason != "" {
		r.recorder.Eventf(after, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonMoved, "Move",
			"placement %d on %s: %s gave it up (%s)", newestPlacement(is), is.TargetClusterID, is.Placements[n-2].ClusterID, is.Placements[n-2].Reason)
	}
}

// newestPlacement returns the number of the newest placement, 0 if there is none.
func newestPlacement(s brokerv1alpha1.ReservationStatus) int32 {
	if len(s.Placements) == 0 {
		return 0
	}
	return s.Placements[len(s.Placements)-1].Number
}

// recordCondition records an event of a condition, as a warning if it has the status bad.
func (r *Reconciler) recordCondition(obj *brokerv1alpha1.Reservation, c *metav1.Condition, bad metav1.ConditionStatus, action string) {
	kind := corev1.EventTypeNormal
	if c.Status == bad {
		kind = corev1.EventTypeWarning
	}
	r.recorder.Eventf(obj, nil, kind, c.Reason, action, "%s", message.Clip(c.Message, message.MaxNote))
}

func changedCondition(s brokerv1alpha1.ReservationStatus) *metav1.Condition {
	return meta.FindStatusCondition(s.Conditions, brokerv1alpha1.ConditionChanged)
}
