package reservation

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

// idleConditions returns the condition Idle, or nothing if the reservation was never idle. The condition is true while
// no pod uses the reservation, and stays true if the reservation was released for this reason.
func idleConditions(v *views.Reservation, before []metav1.Condition) []metav1.Condition {
	c := metav1.Condition{Type: brokerv1alpha1.ConditionIdle, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ReasonIdle, Message: v.Message}
	switch {
	case v.IdleNow() != nil, v.EndReason == ledger.EndIdle:
	case !meta.IsStatusConditionTrue(before, c.Type):
		return nil
	case v.EndReason != "":
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonReleased, "the reservation has ended for another reason"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonInUse, "pods use the reservation, or it moves, or one of its agents is silent"
	}
	return []metav1.Condition{c}
}
