package message

import (
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
