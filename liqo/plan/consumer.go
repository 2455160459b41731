package plan

import (
	"cmp"
	"fmt"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// ConsumerView is the consumer's observation of one placement and of its peering with the
// provider.
type ConsumerView struct {
	Provider string
	// Name is the name of the placement's objects.
	Name string
	// Release is true when the placement has ended.
	Release bool

	Namespace ObjectView
	Identity  IdentityView
	Handshake ConsumerHandshake
	Server    ServerView

	Slice       SliceView
	VirtualNode ObjectView
	Node        NodeView
	Health      HealthView
	Network     NetworkView
	Offloading  []OffloadingView
	// Drain is filled only while the placement is released and its slice exists.
	Drain DrainView

	// Siblings counts the other instructions for the provider, in any phase; Standing those
	// that have not ended.
	Siblings, Standing int
	// Reach is whether Liqo reaches the provider. It is complete only while the placement is
	// released.
	Reach ReachView
	// Overdue is true once the release has taken longer than the give-up timeout.
	Overdue bool
	// Home is filled only while the placement is released and drained.
	Home HomeView
}

// IdentityView is this cluster's identity at the provider.
type IdentityView struct {
	ObjectView
	Name string
	// Ready is true when Liqo has made a kubeconfig for the identity.
	Ready bool
	// Fits is true when the certificate is for this cluster's current key.
	Fits bool
	// Due is true when Liqo should have renewed the certificate by now; Expired when the
	// certificate is no longer valid.
	Due, Expired bool
	// Renewing is true while the Renew object exists, through which Liqo renews the
	// certificate.
	Renewing bool
	// Parted is true when the agent has pointed the identity away from the replicated objects
	// at the provider; ActedOn when Liqo has had time to act on that.
	Parted, ActedOn bool
}

// IsComplete reports whether Liqo uses the identity with a certificate for this cluster's
// current key.
func (i IdentityView) IsComplete() bool { return i.IsUsable() && i.Ready && i.Fits && !i.Parted }

// Works reports whether the identity is complete and its certificate is still valid.
func (i IdentityView) Works() bool { return i.IsComplete() && !i.Expired }

// IsWritable reports whether the agent may write the identity. The agent never replaces an
// identity that it did not make.
func (i IdentityView) IsWritable() bool { return !i.Exists || i.Ours }

// ConsumerHandshake summarizes the provider's messages.
type ConsumerHandshake struct {
	// Challenged is true when a challenge for a live placement awaits an answer.
	Challenged bool
	// Credentials is true when credentials arrived that continue the handshake and fit this
	// cluster's key; Applied when the Identity already holds them.
	Credentials, Applied bool
	// Problem says why this cluster refuses a message; it is empty if none was refused.
	Problem string
}

// ServerView is the record, in the tenant namespace, of the provider's API servers.
type ServerView struct {
	// Recordable is true when the agent made both the namespace and the identity; Recorded
	// when the record equals the advertised API server.
	Recordable, Recorded bool
	// Wanted is true when the record must be written.
	Wanted bool
}

// SliceView is the placement's ResourceSlice.
type SliceView struct {
	ObjectView
	// Current is true when the slice requests the reserved resources.
	Current bool
	// Nudged is true when the agent has annotated the slice to make Liqo reconcile it.
	Nudged bool
	// Denied is true when the provider refuses the slice; Message says why.
	Denied  bool
	Message string
	// Misled says which API server in the slice's status was not agreed on; it is empty if the
	// status is sound.
	Misled string
}

// NodeView is the virtual node.
type NodeView struct {
	Exists, Ready bool
	Message       string
	// Cordoned is true when the node is unschedulable and names the drain as the reason.
	Cordoned bool
	// Opened is true when the node's labels name the namespaces that may use it.
	Opened bool
}

// ConsumerState is the progress of a placement.
type ConsumerState struct {
	Phase      agentv1alpha1.InstructionPhase
	Peered     placement.Aspect
	NodeReady  placement.Aspect
	Offloading placement.Aspect
	// Network is empty where networks are not connected.
	Network placement.Aspect
	// Connecting is true while the node exists and waits for the network alone.
	Connecting bool
	// Drained is empty until the placement has ended, and stays empty without a node.
	Drained placement.Aspect
	// Gone is true when nothing is left that belongs to the placement or still needs the
	// provider. The agent may then tell the broker.
	Gone bool
	// Done is true when the instruction may be deleted, too.
	Done bool
	// Health says what is wrong with a delivered placement. Its reason is empty before the
	// delivery and during the release.
	Health placement.Aspect
	// Again is the delay until the next check if no event comes first; 0 for never.
	Again time.Duration
}

// ForConsumer returns the next actions for a placement, and its state.
func ForConsumer(v ConsumerView) ([]Action, ConsumerState) {
	if v.Release {
		return planRelease(v)
	}
	return planHold(v)
}

func planHold(v ConsumerView) (actions []Action, s ConsumerState) {
	// Offload first: pods created before their namespace is offloaded stay in this cluster.
	actions = planOffloading(v)
	peering, peered := planPeering(v)
	actions = append(actions, peering...)
	if v.Reach.GivenUp && v.Reach.ByAgent {
		actions = append(actions, Action{Do: TakeBackGivingUp})
	}
	if v.Node.Exists && !v.Node.Opened {
		actions = append(actions, Action{Do: OpenNode})
	}
	connect, network := planNetwork(v.Network)
	actions = append(actions, connect...)
	s = ConsumerState{Phase: agentv1alpha1.InstructionPeering, Peered: peered, Network: network, Offloading: offloadingAspect(v), Health: healthAspect(&v)}
	if !peered.True {
		s.NodeReady = placement.Waiting(agentv1alpha1.ReasonAwaitingNode, "waiting for the peering")
		if peered.Reason == agentv1alpha1.ReasonHandshakeRefused {
			s.NodeReady = peered
		}
		return actions, s
	}
	if v.Namespace.IsUsable() && (!v.Slice.Exists || v.Slice.IsUsable() && v.Slice.Ours && !v.Slice.Current) {
		actions = append(actions, Action{Do: WriteSlice})
	}
	s.NodeReady = nodeAspect(v)
	s.Phase = agentv1alpha1.InstructionAwaitingNode
	if s.NodeReady.True {
		s.Phase = agentv1alpha1.InstructionActive
	}
	s.Connecting = v.Node.Exists && !v.Node.Ready && v.Network.IsUnderWay()
	return actions, s
}

// planPeering answers every challenge, even while the identity works: the provider sends one
// only after it lost its side of the peering.
func planPeering(v ConsumerView) (actions []Action, peered placement.Aspect) {
	if v.Namespace.Terminating || v.Identity.Terminating {
		return nil, placement.Waiting(agentv1alpha1.ReasonPeering, "waiting until an earlier peering with %q is gone", v.Provider)
	}
	if !v.Namespace.Exists {
		return []Action{{Do: EnsureNamespace}}, placement.Waiting(agentv1alpha1.ReasonPeering, "waiting for the tenant namespace of %q", v.Provider)
	}
	if v.Handshake.Challenged {
		actions = append(actions, Action{Do: SendAnswer})
	}
	if v.Server.Wanted {
		actions = append(actions, Action{Do: RecordServer})
	}
	mayWrite := v.Identity.IsWritable()
	if v.Handshake.Credentials && !v.Handshake.Applied && mayWrite {
		return append(actions, Action{Do: WriteIdentity}), placement.Waiting(agentv1alpha1.ReasonPeering, "waiting for Liqo to use the identity at %q", v.Provider)
	}
	peered, mayAsk := identityAspect(v)
	switch {
	case v.Identity.Due && mayWrite || mayAsk:
		if !v.Handshake.Challenged {
			actions = append(actions, Action{Do: AskCredentials})
		}
	case peered.True && !v.Identity.Due:
		actions = append(actions, Action{Do: StopAsking})
	}
	return actions, peered
}

// identityAspect returns whether this cluster has an identity at the provider, and whether
// it should ask for credentials.
func identityAspect(v ConsumerView) (peered placement.Aspect, mayAsk bool) {
	const reason = agentv1alpha1.ReasonPeering
	switch {
	case v.Identity.Works():
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonPeered, Message: fmt.Sprintf("this cluster has an identity at %q", v.Provider)}, false
	case v.Handshake.Problem != "":
		return placement.Waiting(agentv1alpha1.ReasonHandshakeRefused, "%s", v.Handshake.Problem), false
	case v.Identity.Exists && !v.Identity.Ours:
		return placement.Waiting(reason, "identity %q was not made by the agent and does not work: repair or delete it", v.Identity.Name), false
	case v.Identity.Expired:
		return placement.Waiting(reason, "this cluster's certificate at %q has expired: waiting for %q to send another", v.Provider, v.Provider), false
	case v.Identity.Exists && v.Identity.Fits && !v.Identity.Parted:
		return placement.Waiting(reason, "waiting for Liqo to use the identity at %q", v.Provider), false
	}
	return placement.Waiting(reason, "waiting for %q to send this cluster's credentials", v.Provider), true
}

func nodeAspect(v ConsumerView) placement.Aspect {
	switch {
	case v.Slice.Exists && !v.Slice.Ours:
		return placement.Waiting(agentv1alpha1.ReasonAwaitingNode, "a ResourceSlice %q was there before: delete it", v.Name)
	case v.Node.Ready:
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonNodeReady, Message: fmt.Sprintf("node %q is ready", v.Name)}
	case v.Node.Exists:
		return placement.Waiting(agentv1alpha1.ReasonNodeNotReady, "node %q is not ready: %s", v.Name, cmp.Or(v.Node.Message, "no reason is given"))
	case v.Slice.Misled != "":
		return placement.Waiting(agentv1alpha1.ReasonHandshakeRefused, "%s", v.Slice.Misled)
	case v.Slice.Denied:
		return placement.Waiting(agentv1alpha1.ReasonAwaitingNode, "%q does not grant the slice yet: %s", v.Provider, v.Slice.Message)
	case v.VirtualNode.Exists:
		return placement.Waiting(agentv1alpha1.ReasonAwaitingNode, "waiting for the virtual kubelet of node %q", v.Name)
	}
	return placement.Waiting(agentv1alpha1.ReasonAwaitingNode, "waiting for %q to grant the slice", v.Provider)
}

// planRelease removes the placement. It drains the virtual node first and respects disruption
// budgets, while the remote namespaces still exist and the provider lets pods end.
func planRelease(v ConsumerView) (actions []Action, s ConsumerState) {
	s = ConsumerState{Phase: agentv1alpha1.InstructionReleasing}
	s.Peered = placement.Waiting(agentv1alpha1.ReasonReleasing, "the placement has ended")
	s.NodeReady, s.Offloading = s.Peered, s.Peered
	if v.Slice.IsUsable() && v.Slice.Ours {
		return planSliceRemoval(v, s)
	}
	if !v.IsDrained() {
		s.NodeReady = placement.Waiting(agentv1alpha1.ReasonReleasing, "waiting until node %q is gone%s", v.Name, v.unreachableNote())
		return planLost(v), s
	}
	if actions = planOffloading(v); len(actions) > 0 || v.isOffloadingEnding() {
		s.Offloading = placement.Waiting(agentv1alpha1.ReasonReleasing, "waiting until the remote namespaces are gone%s", v.unreachableNote())
		return append(actions, planLost(v)...), s
	}
	if v.Siblings == 0 {
		return planUnpeer(v, s)
	}
	s.Phase, s.Gone, s.Done = agentv1alpha1.InstructionReleased, true, true
	return nil, s
}

func planSliceRemoval(v ConsumerView, s ConsumerState) ([]Action, ConsumerState) {
	actions, drained, done := planDrain(v)
	s.NodeReady = placement.Waiting(agentv1alpha1.ReasonReleasing, "%s%s", drained.Message, v.unreachableNote())
	if v.Node.Exists {
		s.Drained = drained
	}
	if done {
		return []Action{{Do: DeleteSlice}}, s
	}
	s.Again = drainInterval
	return append(actions, planLost(v)...), s
}

// IsDrained reports whether the placement's node can no longer have pods. A slice of this
// name that the agent did not make does not belong to the placement.
func (v *ConsumerView) IsDrained() bool {
	if v.Slice.Exists && !v.Slice.Ours {
		return true
	}
	return !v.Slice.Exists && !v.VirtualNode.Exists && !v.Node.Exists
}

// planUnpeer removes the peering after the last placement at the provider.
func planUnpeer(v ConsumerView, s ConsumerState) ([]Action, ConsumerState) {
	s.Peered = placement.Waiting(agentv1alpha1.ReasonReleasing, "waiting until the peering with %q is gone%s", v.Provider, v.unreachableNote())
	if v.Identity.IsUsable() && v.Identity.Ours {
		if v.Overdue && v.Reach.Answers && !v.Identity.ActedOn {
			return planParting(v), s
		}
		return []Action{{Do: DeleteIdentity}}, s
	}
	if v.Identity.Terminating || !v.Identity.Exists && v.Identity.Renewing {
		return planLost(v), s
	}
	actions, done := planHome(v.Home)
	s.Gone, s.Done, s.Again = true, done, v.Home.recheckAfter()
	if done {
		s.Phase = agentv1alpha1.InstructionReleased
	}
	return actions, s
}
