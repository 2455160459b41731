package message

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ChangedCondition returns the condition of a type if its status or reason differs from before,
// otherwise nil. Callers announce such a change with an event.
func ChangedCondition(conditions, before []metav1.Condition, kind string) *metav1.Condition {
	now, old := meta.FindStatusCondition(conditions, kind), meta.FindStatusCondition(before, kind)
	if now == nil || old != nil && old.Status == now.Status && old.Reason == now.Reason {
		return nil
	}
	return now
}
