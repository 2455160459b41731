package plan

import (
	"cmp"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// ProviderView is what a provider sees of one placement and of its peering with
// the placement's consumer.
type ProviderView struct {
	Consumer string
	Name     string
	// Release is true when the placement has ended, Unpeer when the consumer is done
	// with it too.
	Release, Unpeer bool
	// Reclaim is true when the consumer has had its time to give back what has ended.
	Reclaim bool

	Namespace ObjectView
	// Nonce is there to be signed when it is usable.
	Nonce     ObjectView
	Tenant    TenantView
	Handshake ProviderHandshake

	// Replica is the placement's slice as Liqo replicated it. Slices counts all that
	// the consumer has here, Replicated everything that its Liqo keeps here.
	Replica            ReplicaView
	Slices, Replicated int
	// Quota is true while Liqo lets the placement's pods in. ShadowPods counts what the
	// consumer wants to run, Pods what this cluster runs for it: one that takes long to
	// end outlives the other.
	Quota            bool
	ShadowPods, Pods int
	// QuotaExceeds is true while Liqo lets in more than this cluster keeps; it is filled
	// while a change is to be answered.
	QuotaExceeds bool

	Network NetworkView

	// Siblings counts the other instructions for the consumer, in any phase; it is
	// filled once nothing runs any more.
	Siblings int
	// Home is filled only while unpeering.
	Home HomeView
}

// TenantView is the consumer's Tenant.
type TenantView struct {
	ObjectView
	// Ready is true when the cluster signed a certificate for the Tenant's key.
	Ready bool
	// Signed is true when its signature is of the present nonce.
	Signed bool
	// Drained is true while Liqo gives the consumer no rights here; Reclaimed when it was
	// the agent that wanted it so.
	Drained, Reclaimed bool
}

// ProviderHandshake is what came from the consumer and what was sent.
type ProviderHandshake struct {
	// Answered is true when a valid answer to the present challenge came.
	Answered bool
	// SameKey is true when the answer is by the key that the Tenant holds.
	SameKey bool
	// Problem says why an answer was refused.
	Problem string
	// Requested is true when the consumer asked for its credentials; KnownKey when
	// it asked with the key that the Tenant holds.
	Requested, KnownKey bool
}

// ReplicaView is the replica of the placement's slice.
type ReplicaView struct {
	Exists  bool
	Granted bool
	Message string
	// Cordoned is true while no pod is let in any more.
	Cordoned bool
	// Exceeds is true while more is granted than is kept.
	Exceeds bool
}

// ProviderState is how far a placement is.
type ProviderState struct {
	Phase   agentv1alpha1.InstructionPhase
	Granted placement.Aspect
	// Gone is true when nothing of the placement is left here: the broker may be told,
	// and sell the capacity again.
	Gone bool
	// Done is true when the instruction may go too: the peering is down or others need it.
	Done bool
	// Exceeds is true while the consumer has more than this cluster keeps for it, or may
	// get it by what was granted before.
	Exceeds bool
	// Again is when to look again if nothing else happens, from now; 0 for never.
	Again time.Duration
}

// PlanProvider decides what to do next for a placement that this cluster has
// acknowledged, and says where it is.
func PlanProvider(v ProviderView) ([]Action, ProviderState) {
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
		return planWarm(v), wait("waiting for the slice of %q", v.Consumer)
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

// planWarm serves a consumer that was given its credentials before. It has its
// identity still, or asks.
func planWarm(v ProviderView) []Action {
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

// planOtherKey replaces a Tenant of ours whose key the consumer no longer has. A
// Tenant in use is left alone, for whoever holds the old key runs pods here.
func planOtherKey(v ProviderView, wait func(string, ...any) ProviderState) ([]Action, ProviderState) {
	switch {
	case !v.Tenant.Ours:
		return nil, wait("Tenant %q holds another key and was not made by the agent: delete it to peer anew", v.Consumer)
	case v.Slices > 0:
		return nil, wait("%q came with another key while slices of the earlier one are there", v.Consumer)
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
	s.Done, s.Again = done, v.Home.lookAgainAfter()
	return append(actions, teardown...), s
}

// IsInUse reports whether the placement takes anything here, or could. A replica that was
// reclaimed and is made anew is granted nothing, and holds nothing.
func (v *ProviderView) IsInUse() bool {
	return v.Replica.Exists && !v.Reclaim || v.Quota || v.ShadowPods > 0 || v.Pods > 0
}

// planTenantRemoval waits for what the consumer replicated: with the Tenant goes
// the right to remove it, and the consumer would wait for ever.
func planTenantRemoval(v ProviderView) (actions []Action, done bool) {
	switch {
	case v.Tenant.Terminating:
		return nil, false
	case v.Replicated > 0 && v.evicts():
		return planEviction(v), false
	case v.Tenant.Exists && v.Tenant.Ours:
		return []Action{{Do: DeleteTenant}}, false
	case !v.Tenant.Exists && v.Nonce.IsUsable() && v.Nonce.Ours && v.Namespace.IsUsable() && !v.Namespace.Ours:
		return []Action{{Do: DeleteSecrets}}, false
	}
	return planHome(v.Home)
}
