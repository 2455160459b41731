package reservation

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

// recallConditions returns the condition Recalled, or nothing if no placement was recalled. A placement is recalled by
// its provider, or because an administrator drains the provider. The condition is true while the current placement is
// recalled, or if it was given up for this reason. It is false once another provider has taken over, or the recall was
// withdrawn.
func recallConditions(v *views.Reservation, before []metav1.Condition) []metav1.Condition {
	c := metav1.Condition{Type: brokerv1alpha1.ConditionRecalled, Status: metav1.ConditionTrue}
	taken := slices.ContainsFunc(v.Placements, func(p ledger.Placement) bool { return wasRecalled(&p) })
	stands := v.Phase == ledger.Reserved || v.Phase == ledger.Active
	switch {
	case v.Recall != "":
		c.Reason, c.Message = brokerv1alpha1.ReasonRecallNotice, v.Recall
	case taken && stands:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonMigrated, v.Provider+" has replaced the provider that the reservation had to leave"
	case v.Current() != nil && wasRecalled(v.Current()):
		c.Reason, c.Message = brokerv1alpha1.ReasonRecalled, v.Message
	case stands && meta.IsStatusConditionTrue(before, c.Type):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonNoticeWithdrawn, "it no longer has to leave its provider"
	default:
		return nil
	}
	return []metav1.Condition{c}
}

func wasRecalled(p *ledger.Placement) bool {
	return p.Withdrawn == ledger.Recalled || p.Withdrawn == ledger.Drained
}
