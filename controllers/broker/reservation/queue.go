package reservation

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

func queuePlaceOf(q *term.QueuePlace) *brokerv1alpha1.QueuePlace {
	if q == nil {
		return nil
	}
	return &brokerv1alpha1.QueuePlace{
		Position: int32(q.Place), Since: views.ToSeconds(q.Since), Until: views.ToSeconds(q.Until), Reason: string(q.Reason),
	}
}

// preemptedConditions returns the condition Preempted. The condition is true while the reservation must make room for
// a request of a higher priority, and after its placement has ended for that reason. It is false once the reservation
// has capacity again or no longer has to make room. For other reservations, preemptedConditions returns nothing.
func preemptedConditions(v *views.Reservation, before []metav1.Condition) []metav1.Condition {
	c := metav1.Condition{Type: brokerv1alpha1.ConditionPreempted, Status: metav1.ConditionTrue}
	old := meta.FindStatusCondition(before, c.Type)
	switch {
	case v.Warning != "":
		c.Reason, c.Message = brokerv1alpha1.ReasonNotice, v.Warning
	case v.EndReason == ledger.EndPreempted, v.Place != nil && v.Place.Reason == v1.QueuePlaceReasonPreempted:
		c.Reason, c.Message = brokerv1alpha1.ReasonPreempted, v.Message
	case old == nil || old.Status != metav1.ConditionTrue:
		return nil
	case old.Reason == brokerv1alpha1.ReasonNotice && wasPreempted(v):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonMigrated, v.Provider+" has replaced the provider where it had to make room"
	case old.Reason == brokerv1alpha1.ReasonNotice:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonNoticeWithdrawn, "it no longer has to make room"
	case v.Phase == ledger.Reserved, v.Phase == ledger.Active:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonReserved, "capacity is reserved again"
	default:
		return nil
	}
	return []metav1.Condition{c}
}

// wasPreempted reports whether the placement before the current one had to make room.
func wasPreempted(v *views.Reservation) bool {
	n := len(v.Placements)
	return n > 1 && v.Placements[n-2].Withdrawn == ledger.Preempted && v.Placements[n-1].Withdrawn == ""
}
