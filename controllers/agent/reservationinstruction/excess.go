package reservationinstruction

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// describeExcess sets the condition WithinGrant to false once the provider has evicted pods that
// exceeded the grant. The condition stays false until the placement ends, because the broker does
// not tell the consumer when the pods fit again.
func describeExcess(inst *agentv1alpha1.ReservationInstruction, now time.Time) {
	if inst.Spec.Excess == nil {
		return
	}
	message.SetCondition(&inst.Status.Conditions, agentv1alpha1.ConditionWithinGrant, metav1.ConditionFalse, agentv1alpha1.ReasonExceedsGrant,
		wire.ExcessMessage(inst.Spec.TargetClusterID, inst.Spec.Excess), inst.Generation, now)
}
