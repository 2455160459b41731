package resourcerequest

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// setIdle copies the idle time of the current placement into the condition Idle and status.idleSince. A request that
// was never idle does not get the condition.
func (e editor) setIdle(current *agentv1alpha1.ReservationInstruction) {
	const kind = agentv1alpha1.ConditionIdle
	e.rr.Status.IdleSince = nil
	idle := current.Spec.Idle
	switch {
	case idle != nil:
		e.rr.Status.IdleSince = &idle.Since
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonIdle, describeIdle(current))
	case meta.IsStatusConditionTrue(e.rr.Status.Conditions, kind):
		e.setCondition(kind, metav1.ConditionFalse, agentv1alpha1.ReasonInUse, "pods use the capacity, or it moves, or the provider or the broker does not answer")
	}
}

func describeIdle(current *agentv1alpha1.ReservationInstruction) string {
	idle := current.Spec.Idle
	text := fmt.Sprintf("nobody uses the capacity since %s: no pod is on node %q, and %q reports no usage", idle.Since.UTC().Format(time.RFC3339), current.Name, current.Spec.TargetClusterID)
	if idle.ReleaseAt == nil {
		return text + "; to stop paying for it, delete the request or set spec.release"
	}
	return fmt.Sprintf("%s; it is released at %s unless a pod runs there before", text, idle.ReleaseAt.UTC().Format(time.RFC3339))
}
