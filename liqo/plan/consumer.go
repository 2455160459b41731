package plan

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// ConsumerView is what exists in the consumer's cluster for one placement, and for its peering
// with the provider.
type ConsumerView struct {
	Provider string
	// Name is the name of the placement, and of its slice, VirtualNode and node.
	Name string
	// Release is true once the placement has ended. Its objects must then be removed.
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
	// Drain is filled only while Release is true and the placement's slice exists.
	Drain DrainView

	// Siblings is the number of other instructions for the same provider, in any phase. It is
	// filled once an ended placement has no virtual node left. Standing is the number of
	// instructions for the provider that have not ended; it is filled only while Release is
	// true.
	Siblings, Standing int
	// Reach says whether Liqo can reach the provider's API server. Its fields Known and
	// Answers are filled only while Release is true.
	Reach ReachView
	// Overdue is true once the release has taken longer than Options.GiveUpAfter of the Peering.
	Overdue bool
	// Home is what exists for the provider in this cluster besides the placements. It is filled only
	// once an ended placement has no virtual node left and Siblings is 0.
	Home HomeView
}

// IdentityView is this cluster's identity at the provider.
type IdentityView struct {
	ObjectView
	Name string
	// Ready is true when Liqo has made a kubeconfig for the identity.
	Ready bool
	// Fits is true when the identity's certificate is for this cluster's current key.
	Fits bool
	// Due is true when Liqo should have renewed the certificate by now. Expired is true when
	// the certificate is no longer valid.
	Due, Expired bool
	// Renewing is true while a Renew object exists. Through it, Liqo renews the certificate.
	Renewing bool
	// Parted is true after the agent has changed the identity's remote namespace, to make Liqo
	// forget the objects that it replicated to the provider. ActedOn is true once partedGrace
	// has passed after this change.
	Parted, ActedOn bool
}

// IsComplete reports whether Liqo uses the identity, with a certificate for this cluster's
// current key. The certificate may have expired.
func (i IdentityView) IsComplete() bool { return i.IsUsable() && i.Ready && i.Fits && !i.Parted }

// Works reports whether the identity is complete and its certificate is still valid.
func (i IdentityView) Works() bool { return i.IsComplete() && !i.Expired }

// IsWritable reports whether the agent may write the identity. The agent never replaces an
// identity that it did not make.
func (i IdentityView) IsWritable() bool { return !i.Exists || i.Ours }

// ConsumerHandshake summarizes the provider's messages.
type ConsumerHandshake struct {
	// Challenged is true when the provider has sent a challenge for a placement that has not
	// ended, and waits for the answer.
	Challenged bool
	// Credentials is true when the provider has sent credentials that belong to the current
	// handshake and fit this cluster's key. Applied is true when the Identity already holds
	// these credentials or newer ones.
	Credentials, Applied bool
	// Problem says why this cluster refuses a message; it is empty if none was refused.
	Problem string
}

// ServerView describes the annotation of the tenant namespace that lists the addresses of the
// provider's API server. This cluster's Liqo may connect to no others.
type ServerView struct {
	// Recordable is true when the agent made both the tenant namespace and the identity.
	// Recorded is true when the annotation lists the address that the provider advertises.
	Recordable, Recorded bool
	// Wanted is true when the annotation must be written.
	Wanted bool
}

// SliceView is the placement's ResourceSlice.
type SliceView struct {
	ObjectView
	// Current is true when the slice requests exactly the reserved resources.
	Current bool
	// Nudged is true when the slice has the annotation with which the agent makes Liqo reconcile
	// it at once.
	Nudged bool
	// Denied is true when the provider refuses the slice. Message says why.
	Denied  bool
	Message string
	// Misled says which API server in the slice's status is not recorded for the provider; "" if there is none.
	Misled string
}

// NodeView is the virtual node.
type NodeView struct {
	Exists, Ready bool
	Message       string
	// Tainted is true while the node has the taint of nodes that are not Ready, which Kubernetes
	// removes shortly after the node has become Ready.
	Tainted bool
	// Cordoned is true when the agent has made the node unschedulable because the placement has ended.
	Cordoned bool
	// Opened is true when the node has the labels that name its request and the namespaces whose pods may use it.
	Opened bool
}

// ConsumerState is the progress of a placement in the consumer's cluster.
type ConsumerState struct {
	Phase      agentv1alpha1.InstructionPhase
	Peered     placement.Aspect
	NodeReady  placement.Aspect
	Offloading placement.Aspect
	// Network is the state of the network connection. It is empty if this cluster does not
	// connect networks.
	Network placement.Aspect
	// Connecting is true while the virtual node lacks only the network connection to become Ready.
	Connecting bool
	// Drained is the progress of the drain; empty before the placement has ended, and without a virtual node.
	Drained placement.Aspect
	// Leaving says what an ended placement still waits for: the removal of its own objects and,
	// if it was the last one at the provider, of the peering. It is empty before the placement
	// has ended, and once this cluster has nothing left to remove.
	Leaving string
	// Gone is true when nothing of the placement is left and it no longer needs the provider.
	// The agent may then report to the broker that the placement is gone.
	Gone bool
	// Done is true when Gone is true and the instruction may be deleted: the peering has also been
	// removed, or must stay.
	Done bool
	// Health says whether a delivered placement still works, and if it does not, why. It is
	// empty before the virtual node was Ready for the first time, and during the release.
	// Concerned is the pod or Service that it names; nil if it names none. Unserved is true if the
	// provider breaks a promise, so that the broker must know.
	Health    placement.Aspect
	Concerned *corev1.ObjectReference
	Unserved  bool
	// Again is the delay after which the controller must check the placement again even if no
	// event arrives; 0 means that it need not.
	Again time.Duration
}

// ForConsumer returns the next actions in the consumer's cluster for a placement, and the
// placement's state.
func ForConsumer(v ConsumerView) ([]Action, ConsumerState) {
	if v.Release {
		return planRelease(v)
	}
	return planHold(v)
}

func planHold(v ConsumerView) (actions []Action, s ConsumerState) {
	// Offloading comes first: a pod that is created before its namespace is offloaded stays in
	// this cluster.
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
	if s.Health.Reason == agentv1alpha1.ReasonPodsRejected || s.Health.Reason == agentv1alpha1.ReasonServiceRejected {
		s.Concerned, s.Unserved = v.Health.Ref, v.Health.Unserved
	}
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

// planPeering returns the actions that give this cluster an identity at the provider. It answers every challenge:
// if the identity works, the provider has lost its side of the peering.
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

// identityAspect returns whether this cluster has an identity at the provider. mayAsk is true if
// this cluster should request credentials.
func identityAspect(v ConsumerView) (peered placement.Aspect, mayAsk bool) {
	const reason = agentv1alpha1.ReasonPeering
	switch {
	case v.Identity.Works():
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonPeered, Message: fmt.Sprintf("peered with %q", v.Provider)}, false
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
		return placement.Waiting(agentv1alpha1.ReasonAwaitingNode, "ResourceSlice %q exists and was not created by the agent: delete it", v.Name)
	case v.Node.Ready && v.Node.Tainted && !v.Health.Delivered:
		return placement.Waiting(agentv1alpha1.ReasonNodeNotReady, "node %q is ready, and waits until Kubernetes removes its taint %s", v.Name, corev1.TaintNodeNotReady)
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

// planRelease returns the next actions that remove an ended placement. They drain the virtual
// node, delete the slice, end the offloading and, after the last placement at the provider,
// remove the peering. The drain comes first, because pods can shut down properly only while
// their remote namespaces exist and the provider still serves them.
func planRelease(v ConsumerView) (actions []Action, s ConsumerState) {
	s = ConsumerState{Phase: agentv1alpha1.InstructionReleasing}
	s.Peered = placement.Waiting(agentv1alpha1.ReasonReleasing, "the placement has ended")
	s.NodeReady, s.Offloading = s.Peered, s.Peered
	if v.Slice.IsUsable() && v.Slice.Ours {
		return planSliceRemoval(v, s)
	}
	if !v.IsDrained() {
		s.NodeReady = placement.Waiting(agentv1alpha1.ReasonReleasing, "waiting until Liqo has removed node %q%s", v.Name, v.unreachableNote())
		s.Leaving = s.NodeReady.Message
		return planLost(v), s
	}
	if actions = planOffloading(v); len(actions) > 0 || v.isOffloadingEnding() {
		s.Offloading = placement.Waiting(agentv1alpha1.ReasonReleasing, "waiting until Liqo has removed the namespaces at %q%s", v.Provider, v.unreachableNote())
		s.Leaving = s.Offloading.Message
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
	s.Leaving = s.NodeReady.Message
	if v.Node.Exists {
		s.Drained = drained
	}
	if done {
		return []Action{{Do: DeleteSlice}}, s
	}
	s.Again = drainInterval
	return append(actions, planLost(v)...), s
}

// IsDrained reports whether the placement has neither a slice nor a virtual node any longer, so
// that no pod can run on it. A slice that the agent did not make belongs to another owner and does
// not count.
func (v *ConsumerView) IsDrained() bool {
	if v.Slice.Exists && !v.Slice.Ours {
		return true
	}
	return !v.Slice.Exists && !v.VirtualNode.Exists && !v.Node.Exists
}

func planUnpeer(v ConsumerView, s ConsumerState) ([]Action, ConsumerState) {
	s.Peered = placement.Waiting(agentv1alpha1.ReasonReleasing, "waiting until the peering with %q is gone%s", v.Provider, v.unreachableNote())
	s.Leaving = s.Peered.Message
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
		s.Phase, s.Leaving = agentv1alpha1.InstructionReleased, ""
	}
	return actions, s
}
