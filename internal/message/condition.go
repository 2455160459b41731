package message

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ChangedCondition returns the condition of type kind if its status or reason differs from the
// one in before; nil otherwise. Callers record an event for such a change.
func ChangedCondition(conditions, before []metav1.Condition, kind string) *metav1.Condition {
	now, old := meta.FindStatusCondition(conditions, kind), meta.FindStatusCondition(before, kind)
	if now == nil || old != nil && old.Status == now.Status && old.Reason == now.Reason {
		return nil
	}
	return now
}

// SetCondition sets a condition of an object with the given generation. It shortens the text to
// MaxStatus.
func SetCondition(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason, text string, generation int64, now time.Time) {
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: Clip(text, MaxStatus), ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	})
}
