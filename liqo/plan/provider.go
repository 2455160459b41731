package plan

import (
	"cmp"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// ProviderView is the provider's observation of one placement and of its peering with the
// consumer.
type ProviderView struct {
	Consumer string
	Name     string
	// Release is true when the placement has ended; Unpeer when the consumer has removed its
	// side, too.
	Release, Unpeer bool
	// Reclaim is true once the consumer's time to return an ended placement is over.
	Reclaim bool

	Namespace ObjectView
	// Nonce is the Secret with the nonce that the consumer signs.
	Nonce     ObjectView
	Tenant    TenantView
	Handshake ProviderHandshake

	// Replica is the placement's slice as Liqo replicated it. Slices counts all slices of the
	// consumer in this cluster; Replicated counts all objects that its Liqo replicated.
	Replica            ReplicaView
	Slices, Replicated int
	// Quota is true while Liqo admits the placement's pods. ShadowPods counts the pods that
	// the consumer wants to run; Pods counts the pods that run here. A pod that ends slowly
	// outlives its ShadowPod.
	Quota            bool
	ShadowPods, Pods int
	// QuotaExceeds is true while Liqo admits more than this cluster keeps for the placement.
	// It is filled while a change of the reservation awaits an answer.
	QuotaExceeds bool

	Network NetworkView

	// Siblings counts the other instructions for the consumer, in any phase. It is filled
	// once the placement uses nothing here.
	Siblings int
	// Home is filled only while the peering is being removed.
	Home HomeView
}

// TenantView is the consumer's Tenant.
type TenantView struct {
	ObjectView
	// Ready is true when this cluster has signed a certificate for the Tenant's key.
	Ready bool
	// Signed is true when the Tenant holds a signature of the current nonce.
	Signed bool
	// Drained is true while Liqo gives the consumer no rights here; Reclaimed when the agent
	// drained the Tenant.
	Drained, Reclaimed bool
}

// ProviderHandshake summarizes the consumer's messages.
type ProviderHandshake struct {
	// Answered is true when a valid answer to the current challenge arrived.
	Answered bool
	// SameKey is true when the answer uses the Tenant's key.
	SameKey bool
	// Problem says why an answer was refused.
	Problem string
	// Requested is true when the consumer asked for its credentials; KnownKey when it asked
	// with the Tenant's key.
	Requested, KnownKey bool
}

// ReplicaView is the replica of the placement's slice.
type ReplicaView struct {
	Exists  bool
	Granted bool
	Message string
	// Cordoned is true while Liqo admits no new pods.
	Cordoned bool
	// Exceeds is true while Liqo grants more than this cluster keeps for the placement.
	Exceeds bool
}

// ProviderState is the progress of a placement.
type ProviderState struct {
	Phase   agentv1alpha1.InstructionPhase
	Granted placement.Aspect
	// Gone is true when nothing of the placement is left here. The agent may then tell the
	// broker, which sells the capacity again.
	Gone bool
	// Done is true when the instruction may be deleted, too: the peering is gone, or other
	// instructions need it.
	Done bool
	// Exceeds is true while the consumer has more than this cluster keeps for it, or can still
	// get more through an earlier grant.
	Exceeds bool
	// Again is the delay until the next check if no event comes first; 0 for never.
	Again time.Duration
}

// ForProvider returns the next actions for a placement that this cluster has acknowledged,
// and its state.
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

// planKnownConsumer serves a consumer that received its credentials before. Such a consumer still has
// its identity, or asks for it.
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

// planOtherKey deletes the agent's Tenant if the consumer no longer has its key. A Tenant
// with slices stays, because the holder of the old key runs pods here.
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

// IsInUse reports whether the placement uses capacity here, or could. A replica that
// reappears after it was reclaimed is granted nothing, so it does not count.
func (v *ProviderView) IsInUse() bool {
	return v.Replica.Exists && !v.Reclaim || v.Quota || v.ShadowPods > 0 || v.Pods > 0
}

// planTenantRemoval deletes the Tenant after the objects that the consumer replicated. The
// consumer needs the Tenant's rights to remove them, and would otherwise wait indefinitely.
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
