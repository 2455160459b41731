package reservation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// announce records an event for every change of phase and for every move.
func (r *Reconciler) announce(before, after *brokerv1alpha1.Reservation) {
	was, is := before.Status, after.Status
	if was.Phase != is.Phase {
		kind := corev1.EventTypeNormal
		if is.Phase == brokerv1alpha1.ReservationFailed {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(after, nil, kind, string(is.Phase), "Transition", "%s", clip(is.Message))
	}
	if c, old := changeIn(is), changeIn(was); c != nil && (old == nil || *c != *old) {
		kind := corev1.EventTypeNormal
		if c.Status == metav1.ConditionFalse {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(after, nil, kind, c.Reason, "Change", "%s", clip(c.Message))
	}
	for _, of := range []struct{ condition, action string }{{brokerv1alpha1.ConditionPreempted, "Preempt"}, {brokerv1alpha1.ConditionRecalled, "Recall"}} {
		if c := changed(was.Conditions, is.Conditions, of.condition); c != nil {
			kind := corev1.EventTypeWarning
			if c.Status == metav1.ConditionFalse {
				kind = corev1.EventTypeNormal
			}
			r.recorder.Eventf(after, nil, kind, c.Reason, of.action, "%s", clip(c.Message))
		}
	}
	if c := changed(was.Conditions, is.Conditions, brokerv1alpha1.ConditionProviderReachable); c != nil {
		kind := corev1.EventTypeNormal
		if c.Status == metav1.ConditionFalse {
			kind = corev1.EventTypeWarning
		}
		r.recorder.Eventf(after, nil, kind, c.Reason, "Reach", "%s", clip(c.Message))
	}
	n := len(is.Placements)
	if n > len(was.Placements) && n > 1 && is.Placements[n-2].Reason != "" {
		r.recorder.Eventf(after, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonMoved, "Move",
			"placement %d on %s: %s gave it up (%s)", n, is.TargetClusterID, is.Placements[n-2].ClusterID, is.Placements[n-2].Reason)
	}
}

func changeIn(s brokerv1alpha1.ReservationStatus) *metav1.Condition {
	return meta.FindStatusCondition(s.Conditions, brokerv1alpha1.ConditionChanged)
}

// changed returns a condition whose status or reason is not what it was.
func changed(was, is []metav1.Condition, kind string) *metav1.Condition {
	before, now := meta.FindStatusCondition(was, kind), meta.FindStatusCondition(is, kind)
	if now == nil || before != nil && before.Status == now.Status && before.Reason == now.Reason {
		return nil
	}
	return now
}

// clip keeps a note within the 1 kB that the events API takes.
func clip(note string) string {
	const most = 1000
	if len(note) <= most {
		return note
	}
	return note[:most] + "…"
}
