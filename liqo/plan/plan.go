package plan

import "time"

// Verb is one thing that a plan can call for.
type Verb string

// Verbs of both sides.
const (
	EnsureNamespace      Verb = "EnsureNamespace"
	DeleteNamespace      Verb = "DeleteNamespace"
	DeleteNamespaceMap   Verb = "DeleteNamespaceMap"
	DeleteForeignCluster Verb = "DeleteForeignCluster"
	DeleteGateways       Verb = "DeleteGateways"
	DeleteConfiguration  Verb = "DeleteConfiguration"
)

// Verbs of the consumer.
const (
	AskCredentials   Verb = "AskCredentials"
	StopAsking       Verb = "StopAsking"
	SendAnswer       Verb = "SendAnswer"
	WriteIdentity    Verb = "WriteIdentity"
	RecordServer     Verb = "RecordServer"
	DeleteIdentity   Verb = "DeleteIdentity"
	WriteSlice       Verb = "WriteSlice"
	DeleteSlice      Verb = "DeleteSlice"
	WriteOffloading  Verb = "WriteOffloading"
	DeleteOffloading Verb = "DeleteOffloading"
	GiveUpProvider   Verb = "GiveUpProvider"
	TakeBackGivingUp Verb = "TakeBackGivingUp"
	NudgeSlice       Verb = "NudgeSlice"
	EndPods          Verb = "EndPods"
	PartIdentity     Verb = "PartIdentity"
	BeginDrain       Verb = "BeginDrain"
	OpenNode         Verb = "OpenNode"
	CordonNode       Verb = "CordonNode"
	EvictPods        Verb = "EvictPods"
	RemovePods       Verb = "RemovePods"
)

// Verbs of the provider.
const (
	EnsureNonce     Verb = "EnsureNonce"
	SendChallenge   Verb = "SendChallenge"
	WriteTenant     Verb = "WriteTenant"
	SendCredentials Verb = "SendCredentials"
	StopSending     Verb = "StopSending"
	ForgetConsumer  Verb = "ForgetConsumer"
	DeleteTenant    Verb = "DeleteTenant"
	DeleteSecrets   Verb = "DeleteSecrets"
	CordonSlice     Verb = "CordonSlice"
	DeletePods      Verb = "DeletePods"
	DeleteReplica   Verb = "DeleteReplica"
	DrainTenant     Verb = "DrainTenant"
	RestoreTenant   Verb = "RestoreTenant"
	DeleteReplicas  Verb = "DeleteReplicas"
)

// Action is a verb and, where it has one, its object. Every action can be repeated.
type Action struct {
	Do Verb
	// Namespace that is offloaded; only WriteOffloading and DeleteOffloading.
	Namespace string
	// Agreement on how; only WriteOffloading.
	Agreement Agreement
	// Pods that have to leave; only EvictPods and RemovePods.
	Pods []PodView
}

// ObjectView is what a plan needs to know of an object.
type ObjectView struct {
	Exists bool
	// Ours is true where the agent made it; the rest is used and left alone.
	Ours bool
	// Terminating is true from its deletion until its finalizers are done.
	Terminating bool
}

// IsUsable objects are there to stay.
func (o ObjectView) IsUsable() bool { return o.Exists && !o.Terminating }

// HomeView is what is left of a pair in this cluster when one of its instructions
// is about to go.
type HomeView struct {
	Namespace ObjectView
	// Needed is true while another instruction, of either direction, has the same peer.
	Needed bool
	// Roots counts objects of Liqo's for the peer that somebody made for a purpose:
	// tenants, identities, slices, virtual nodes, gateways that the agent did not make.
	Roots int
	// Gateways counts those that the agent made, also on their way out, and Leaving these.
	Gateways, Leaving int
	// Configured is true while the agent's record of the peer's networks is there, and
	// Mapped while somebody else's is.
	Configured, Mapped bool
	// Dependents counts what Liqo derived from roots and removes after them.
	Dependents int
	// StrayMap is true when the NamespaceMap of the peer outlived its virtual nodes:
	// Liqo forgets it when two of them go at once.
	StrayMap bool
	// ForeignCluster is true while Liqo's summary of the peer is there.
	ForeignCluster bool
}

// lookAgainAfter is when to look again at a network that is taken down: an agent that connects none
// any more does not watch it.
func (v *HomeView) lookAgainAfter() time.Duration {
	if v.Gateways > 0 || v.Configured {
		return networkLook
	}
	return 0
}

// planHome takes the network connection, the tenant namespace and the ForeignCluster down
// when nobody needs them, in this order; of the connection the gateways go first, as
// liqoctl has it. done means that nothing more will change.
func planHome(v HomeView) (actions []Action, done bool) {
	switch {
	case v.Needed, v.Roots > 0:
		return nil, true
	case v.Gateways > v.Leaving:
		return []Action{{Do: DeleteGateways}}, false
	case v.Gateways > 0:
		return nil, false
	case v.Configured:
		return []Action{{Do: DeleteConfiguration}}, false
	case v.Mapped, v.Namespace.Exists && !v.Namespace.Ours:
		return nil, true
	case v.StrayMap && v.Namespace.Exists:
		return []Action{{Do: DeleteNamespaceMap}}, false
	case v.Namespace.Terminating, v.Dependents > 0:
		return nil, false
	case v.Namespace.Exists:
		return []Action{{Do: DeleteNamespace}}, false
	case v.ForeignCluster:
		return []Action{{Do: DeleteForeignCluster}}, false
	}
	return nil, true
}
