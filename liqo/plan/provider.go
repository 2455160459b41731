package plan

import (
	"cmp"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// ProviderView is what exists in the provider's cluster for one placement, and for its peering with
// the consumer.
type ProviderView struct {
	Consumer string
	Name     string
	// Release is true once the placement has ended. Unpeer is true once the consumer has also removed
	// its side of the peering.
	Release, Unpeer bool
	// Reclaim is true once the consumer's time to return an ended placement is over: this cluster takes it back.
	Reclaim bool

	Namespace ObjectView
	// Nonce is the Secret with the nonce that the consumer signs.
	Nonce     ObjectView
	Tenant    TenantView
	Handshake ProviderHandshake

	// Replica is the placement's slice, as the consumer's Liqo replicated it to this cluster. Slices
	// counts all slices of the consumer here. Replicated counts all objects that the consumer's Liqo
	// replicated here; it is filled only while the peering is being removed.
	Replica            ReplicaView
	Slices, Replicated int
	// Quota is true while Liqo's Quota for the placement exists, so that Liqo admits pods. ShadowPods
	// counts the pods that the consumer wants to run here, and Pods the pods that exist. A pod may
	// outlive its ShadowPod while it terminates, so Pods is filled only when no ShadowPod is left. All
	// three are filled only for an ended placement.
	Quota            bool
	ShadowPods, Pods int
	// QuotaExceeds is true while Liqo's Quota admits more resources than this cluster keeps for the
	// placement. It is filled only while a change of the reservation awaits an answer.
	QuotaExceeds bool

	Network NetworkView

	// Siblings is the number of other instructions for the consumer, in any phase. It is filled only
	// once the ended placement uses nothing here.
	Siblings int
	// Home is what exists for the consumer in this cluster besides the placements. It is filled only
	// while the peering is being removed.
	Home HomeView
}

// TenantView is the consumer's Tenant.
type TenantView struct {
	ObjectView
	// Ready is true when this cluster has signed a certificate for the Tenant's key.
	Ready bool
	// Signed is true when the Tenant holds a valid signature of the current nonce.
	Signed bool
	// Drained is true while the Tenant is drained: Liqo gives the consumer no rights here. Reclaimed
	// is true when the agent drained the Tenant.
	Drained, Reclaimed bool
}

// ProviderHandshake summarizes the consumer's messages.
type ProviderHandshake struct {
	// Answered is true when the consumer has sent a valid answer to the current challenge.
	Answered bool
	// SameKey is true when the answer uses the key in the Tenant.
	SameKey bool
	// Problem says why a message of the consumer was refused; it is empty if none was.
	Problem string
	// Requested is true when the consumer asked for its credentials. KnownKey is true when this
	// request names the key in the Tenant.
	Requested, KnownKey bool
}

// ReplicaView is the replica of the placement's slice in the provider's cluster.
type ReplicaView struct {
	Exists  bool
	Granted bool
	Message string
	// Cordoned is true while the slice's annotation makes Liqo refuse new pods.
	Cordoned bool
	// Exceeds is true while Liqo grants more resources than this cluster keeps for the placement.
	Exceeds bool
}

// ProviderState is the progress of a placement in the provider's cluster.
type ProviderState struct {
	Phase   agentv1alpha1.InstructionPhase
	Granted placement.Aspect
	// Gone is true when nothing of the placement is left here, so that the broker may lend the capacity to others.
	Gone bool
	// Done is true when Gone is true and the peering is gone, or left to others: the instruction may be deleted.
	Done bool
	// Exceeds is true while the consumer has, or can still get from Liqo, more than this cluster keeps
	// for the placement after a reduction.
	Exceeds bool
	// Again is the delay after which the controller must check the placement again even if no event
	// arrives; 0 means that it need not.
	Again time.Duration
}

// ForProvider returns the next actions in the provider's cluster for a placement that it has
// acknowledged, and the placement's state.
func ForProvider(v ProviderView) ([]Action, ProviderState) {
	if v.Release || v.Unpeer {
		return planProviderRelease(v)
	}
	if v.Tenant.IsUsable() && v.Tenant.Drained {
		return planDrained(v)
	}
	actions, state := planHandshake(v)
	connect, _ := planNetwork(v.Network)
	actions = append(actions, connect...)
	state.Exceeds = v.Replica.Exceeds || v.QuotaExceeds
	switch {
	case v.Replica.Granted:
		state.Phase = agentv1alpha1.InstructionActive
		state.Granted = placement.Aspect{True: true, Reason: agentv1alpha1.ReasonGranted, Message: "the slice is granted"}
	case v.Replica.Exists:
		state.Phase = agentv1alpha1.InstructionAwaitingNode
		state.Granted = placement.Waiting(agentv1alpha1.ReasonPending, "%s", cmp.Or(v.Replica.Message, "the slice waits for Liqo to authenticate it"))
	}
	return actions, state
}

func planHandshake(v ProviderView) ([]Action, ProviderState) {
	wait := func(format string, args ...any) ProviderState {
		return ProviderState{Phase: agentv1alpha1.InstructionPeering, Granted: placement.Waiting(agentv1alpha1.ReasonPeering, format, args...)}
	}
	switch {
	case v.Namespace.Terminating, v.Tenant.Terminating:
		return nil, wait("waiting until an earlier peering with %q is gone", v.Consumer)
	case !v.Namespace.Exists:
		return []Action{{Do: EnsureNamespace}}, wait("waiting for the tenant namespace of %q", v.Consumer)
	case v.Tenant.Exists && !v.Handshake.Answered && v.Tenant.Ready:
		return planKnownConsumer(v), wait("waiting for the slice of %q", v.Consumer)
	case !v.Nonce.IsUsable():
		return []Action{{Do: EnsureNonce}}, wait("waiting for a nonce for %q", v.Consumer)
	case !v.Handshake.Answered:
		return []Action{{Do: SendChallenge}}, wait("%s", cmp.Or(v.Handshake.Problem, "waiting for the answer of "+v.Consumer))
	case !v.Tenant.Exists:
		return []Action{{Do: WriteTenant}}, wait("waiting for Liqo to sign the certificate of %q", v.Consumer)
	case !v.Handshake.SameKey:
		return planOtherKey(v, wait)
	case v.Tenant.Ours && !v.Tenant.Signed:
		return []Action{{Do: WriteTenant}}, wait("waiting for Liqo to sign the certificate of %q", v.Consumer)
	case !v.Tenant.Ready:
		return nil, wait("waiting for Liqo to sign the certificate of %q", v.Consumer)
	case v.Slices > 0 && !v.Handshake.Requested:
		return []Action{{Do: StopSending}}, wait("waiting for the slice of %q", v.Consumer)
	}
	return []Action{{Do: SendCredentials}}, wait("waiting for the slice of %q", v.Consumer)
}

// planKnownConsumer serves a consumer with a signed certificate, which needs no message unless it asks.
func planKnownConsumer(v ProviderView) []Action {
	switch {
	case !v.Handshake.Requested && v.Slices > 0:
		return []Action{{Do: StopSending}}
	case !v.Handshake.Requested:
		return nil
	case v.Handshake.KnownKey:
		return []Action{{Do: SendCredentials}}
	case !v.Nonce.IsUsable():
		return []Action{{Do: EnsureNonce}}
	}
	return []Action{{Do: SendChallenge}}
}

// planOtherKey handles an answer that uses another key than the Tenant. If the agent made the
// Tenant and the consumer has no slices, planOtherKey deletes the Tenant, so that a Tenant with the
// new key can be made. If the consumer has slices, the Tenant stays, because the holder of the old
// key runs pods here.
func planOtherKey(v ProviderView, wait func(string, ...any) ProviderState) ([]Action, ProviderState) {
	switch {
	case !v.Tenant.Ours:
		return nil, wait("Tenant %q holds another key and was not made by the agent: delete it to peer anew", v.Consumer)
	case v.Slices > 0:
		return nil, wait("%q uses another key while slices of the earlier one still exist", v.Consumer)
	}
	return []Action{{Do: DeleteTenant}}, wait("waiting until the Tenant with the earlier key of %q is gone", v.Consumer)
}

func planProviderRelease(v ProviderView) (actions []Action, s ProviderState) {
	s = ProviderState{Phase: agentv1alpha1.InstructionReleasing, Granted: placement.Waiting(agentv1alpha1.ReasonReleasing, "the placement has ended")}
	if v.IsInUse() {
		actions, s.Granted = planReclaim(v)
		return actions, s
	}
	if v.Siblings == 0 {
		actions = append(actions, Action{Do: ForgetConsumer})
	}
	s.Phase, s.Gone = agentv1alpha1.InstructionReleased, true
	s.Granted = placement.Waiting(agentv1alpha1.ReasonReleased, "nothing of it is left")
	if !v.Unpeer && !v.Reclaim {
		return actions, s
	}
	if v.Siblings > 0 {
		s.Done = true
		return actions, s
	}
	teardown, done := planTenantRemoval(v)
	s.Done, s.Again = done, v.Home.recheckAfter()
	return append(actions, teardown...), s
}

// IsInUse reports whether an ended placement still uses capacity here, or could. Once the consumer's
// time is over, a replica alone does not count, because this cluster grants it nothing.
func (v *ProviderView) IsInUse() bool {
	return v.Replica.Exists && !v.Reclaim || v.Quota || v.ShadowPods > 0 || v.Pods > 0
}

// planTenantRemoval returns the next actions that remove the Tenant, and then the rest of the
// peering. The Tenant is removed only when the objects that the consumer's Liqo replicated here are
// gone. The consumer needs the rights of the Tenant to remove them, and would otherwise wait
// indefinitely.
func planTenantRemoval(v ProviderView) (actions []Action, done bool) {
	switch {
	case v.Tenant.Terminating:
		return nil, false
	case v.Replicated > 0 && v.mayEvict():
		return planEviction(v), false
	case v.Tenant.Exists && v.Tenant.Ours:
		return []Action{{Do: DeleteTenant}}, false
	case !v.Tenant.Exists && v.Nonce.IsUsable() && v.Nonce.Ours && v.Namespace.IsUsable() && !v.Namespace.Ours:
		return []Action{{Do: DeleteSecrets}}, false
	}
	return planHome(v.Home)
}

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
