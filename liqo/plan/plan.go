package plan

import "time"

// Verb names the operation of an Action.
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

// Action is a verb with its arguments. Every action can be repeated.
type Action struct {
	Do Verb
	// Namespace is the offloaded namespace; set only for WriteOffloading and DeleteOffloading.
	Namespace string
	// Agreement is how to offload the namespace; set only for WriteOffloading.
	Agreement Agreement
	// Pods must leave the node; set only for EvictPods and RemovePods.
	Pods []PodView
}

// ObjectView is the part of an object that a plan needs.
type ObjectView struct {
	Exists bool
	// Ours is true for an object that the agent made. The agent uses other objects, but does
	// not change them.
	Ours bool
	// Terminating is true from the object's deletion until its finalizers are done.
	Terminating bool
}

// IsUsable reports whether the object exists and is not being deleted.
func (o ObjectView) IsUsable() bool { return o.Exists && !o.Terminating }

// HomeView is what remains of a peer in this cluster when one of its instructions is about
// to go.
type HomeView struct {
	Namespace ObjectView
	// Needed is true while another instruction, in either direction, has the same peer.
	Needed bool
	// Roots counts Liqo's objects for the peer that have no owner and are not being deleted:
	// Tenants, Identities, ResourceSlices and VirtualNodes. It also counts gateways that the
	// agent did not make.
	Roots int
	// Gateways counts the gateways that the agent made; Leaving those of them that are being
	// deleted.
	Gateways, Leaving int
	// Configured is true while the agent's Configuration for the peer exists; Mapped while
	// one exists that the agent did not make.
	Configured, Mapped bool
	// Dependents counts objects that Liqo derived from the roots and removes after them.
	Dependents int
	// StrayMap is true when the NamespaceMap of the peer outlived its virtual nodes. Liqo
	// leaves it behind when two virtual nodes go at the same time.
	StrayMap bool
	// ForeignCluster is true while Liqo's summary of the peer exists.
	ForeignCluster bool
}

// recheckAfter returns when to check again a network that is being removed. An agent that
// no longer connects networks does not watch their objects.
func (v *HomeView) recheckAfter() time.Duration {
	if v.Gateways > 0 || v.Configured {
		return networkLook
	}
	return 0
}

// planHome removes the network connection, the tenant namespace and the ForeignCluster, in
// this order, once no instruction needs them. Within the connection the gateways go first,
// as in liqoctl. done means that nothing more will change.
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
