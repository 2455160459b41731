package wire

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Turned returns a condition whose status or reason is not what it was before, so that an
// event is to tell of it; nil if there is none or it is the same.
func Turned(conditions, before []metav1.Condition, kind string) *metav1.Condition {
	now, old := meta.FindStatusCondition(conditions, kind), meta.FindStatusCondition(before, kind)
	if now == nil || old != nil && old.Status == now.Status && old.Reason == now.Reason {
		return nil
	}
	return now
}
