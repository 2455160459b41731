package plan

import (
	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// planReclaim waits for the consumer to return an ended placement, and takes it back when the
// consumer's time is over. The cordon keeps pods from coming back until the quota is gone;
// Liqo removes the quota with the replica.
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
		"%q did not release it in time: reclaiming it, waiting until its quota and %d pods are gone", v.Consumer, v.Pods)
}

// mayEvict reports whether the agent may end the peering: it made the Tenant or, if the Tenant
// was deleted, the namespace. Without a Tenant only the agent can remove the consumer's
// replicas.
func (v *ProviderView) mayEvict() bool {
	if v.Tenant.Exists {
		return v.Tenant.Ours
	}
	return v.Namespace.Ours && v.Reclaim
}

// planEviction ends the peering of a consumer that leaves its replicas here. It first drains
// the Tenant; otherwise the consumer's Liqo would recreate the deleted replicas.
func planEviction(v ProviderView) []Action {
	switch {
	case !v.Reclaim:
		return nil
	case v.Tenant.Exists && !v.Tenant.Drained:
		return []Action{{Do: DrainTenant}}
	}
	return []Action{{Do: DeleteReplicas}}
}

// planDrained restores the rights of a returning consumer if planEviction took them. A Tenant
// that a person drained stays drained.
func planDrained(v ProviderView) ([]Action, ProviderState) {
	s := ProviderState{Phase: agentv1alpha1.InstructionPeering}
	if v.Tenant.Reclaimed && v.Tenant.Ours {
		s.Granted = placement.Waiting(agentv1alpha1.ReasonPeering, "waiting until %q has its rights again", v.Consumer)
		return []Action{{Do: RestoreTenant}}, s
	}
	s.Granted = placement.Waiting(agentv1alpha1.ReasonPeering, "Tenant %q was drained: set its spec.tenantCondition to Active to lend to it again", v.Consumer)
	return nil, s
}
