package resourcerequest

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// setExcess sets the condition WithinGrant to false if the provider has evicted pods that exceeded
// the grant. The condition stays false until another provider serves the request.
func (e editor) setExcess(current *agentv1alpha1.ReservationInstruction) {
	const kind = agentv1alpha1.ConditionWithinGrant
	target := current.Spec.TargetClusterID
	switch x := current.Spec.Excess; {
	case x != nil:
		e.setCondition(kind, metav1.ConditionFalse, agentv1alpha1.ReasonExceedsGrant, wire.ExcessMessage(target, x))
	case meta.IsStatusConditionFalse(e.rr.Status.Conditions, kind):
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonWithinGrant, fmt.Sprintf("%q serves it now", target))
	}
}
