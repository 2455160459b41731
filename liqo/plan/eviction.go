package plan

import (
	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// planReclaim returns the actions that take back an ended placement, once the time for the
// consumer to return it is over; before that, it returns none. The slice is cordoned first, so
// that the consumer cannot recreate deleted pods while Liqo's Quota still admits them. Liqo
// removes the Quota together with the replica of the slice.
func planReclaim(v ProviderView) (actions []Action, granted placement.Aspect) {
	if !v.Reclaim {
		return nil, placement.Waiting(agentv1alpha1.ReasonReleasing, "waiting until the slice and the %d pods of %q are gone", v.ShadowPods+v.Pods, v.Consumer)
	}
	if v.Quota && v.Replica.Exists && !v.Replica.Cordoned {
		actions = append(actions, Action{Do: CordonSlice})
	}
	if v.ShadowPods > 0 {
		actions = append(actions, Action{Do: DeletePods})
	}
	if v.Quota && v.Replica.Exists {
		actions = append(actions, Action{Do: DeleteReplica})
	}
	return actions, placement.Waiting(agentv1alpha1.ReasonReclaiming,
		"%q did not release the capacity in time: reclaiming it; waiting until its quota and %d pods are gone", v.Consumer, v.Pods)
}

// mayEvict reports whether the agent may delete the objects that the consumer's Liqo
// replicated here, and then the peering. It may do so if it made the Tenant. If there is no
// Tenant, the consumer has no rights here and cannot delete the objects itself. The agent may
// then delete them if it made the tenant namespace and the consumer's time is over.
func (v *ProviderView) mayEvict() bool {
	if v.Tenant.Exists {
		return v.Tenant.Ours
	}
	return v.Namespace.Ours && v.Reclaim
}

// planEviction returns the action that removes the objects that the consumer's Liqo replicated
// here, once the time for the consumer to do so is over. It drains the Tenant first: this
// takes away the consumer's rights, so that its Liqo cannot recreate the objects.
func planEviction(v ProviderView) []Action {
	switch {
	case !v.Reclaim:
		return nil
	case v.Tenant.Exists && !v.Tenant.Drained:
		return []Action{{Do: DrainTenant}}
	}
	return []Action{{Do: DeleteReplicas}}
}

// planDrained returns the actions and the state of a placement whose consumer has no rights
// here because its Tenant is drained. It restores the rights if the agent drained the Tenant.
// A Tenant that a person drained stays drained.
func planDrained(v ProviderView) ([]Action, ProviderState) {
	s := ProviderState{Phase: agentv1alpha1.InstructionPeering}
	if v.Tenant.Reclaimed && v.Tenant.Ours {
		s.Granted = placement.Waiting(agentv1alpha1.ReasonPeering, "waiting until %q has its rights again", v.Consumer)
		return []Action{{Do: RestoreTenant}}, s
	}
	s.Granted = placement.Waiting(agentv1alpha1.ReasonPeering, "Tenant %q was drained: set its spec.tenantCondition to Active to lend to it again", v.Consumer)
	return nil, s
}
