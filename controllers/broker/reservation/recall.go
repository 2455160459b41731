package reservation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// recallConditions returns the condition Recalled of a reservation whose provider calls its placement back, or has
// done so. Other reservations do not have it.
func recallConditions(v *broker.ReservationView, before []metav1.Condition) []metav1.Condition {
	c := metav1.Condition{Type: brokerv1alpha1.ConditionRecalled, Status: metav1.ConditionTrue}
	taken := slices.ContainsFunc(v.Placements, func(p ledger.Placement) bool { return p.Withdrawn == ledger.Recalled })
	stands := v.Phase == ledger.Reserved || v.Phase == ledger.Active
	switch {
	case v.Recall != "":
		c.Reason, c.Message = brokerv1alpha1.ReasonRecallNotice, v.Recall
	case taken && stands:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonMigrated, v.Provider+" has replaced the provider that called the reservation back"
	case v.Current() != nil && v.Current().Withdrawn == ledger.Recalled:
		c.Reason, c.Message = brokerv1alpha1.ReasonRecalled, v.Message
	case stands && meta.IsStatusConditionTrue(before, c.Type):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonNoticeWithdrawn, "its provider no longer calls it back"
	default:
		return nil
	}
	return []metav1.Condition{c}
}
