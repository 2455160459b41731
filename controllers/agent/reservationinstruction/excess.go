package reservationinstruction

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// describeExcess sets the condition WithinGrant to false once the provider has evicted pods that
// exceeded the grant. The condition stays false until the placement ends, because the broker does
// not tell the consumer when the pods fit again.
func describeExcess(inst *agentv1alpha1.ReservationInstruction, now metav1.Time) {
	if inst.Spec.Excess == nil {
		return
	}
	meta.SetStatusCondition(&inst.Status.Conditions, metav1.Condition{
		Type: agentv1alpha1.ConditionWithinGrant, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonExceedsGrant,
		Message:            message.Clip(wire.ExcessMessage(inst.Spec.TargetClusterID, inst.Spec.Excess), message.MaxStatus),
		ObservedGeneration: inst.Generation, LastTransitionTime: now,
	})
}
