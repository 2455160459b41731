// Package plan decides what an agent does next for a placement.
//
// ForConsumer and ForProvider take an observation, a ConsumerView or a ProviderView, and return
// actions and a state. They are pure functions that read neither clock nor cluster, so tests can
// cover every case with a table of views. Every action can be repeated. After a crash, a plan
// continues from the objects that exist.
//
//	view ─▶ ForConsumer ─▶ offloading, peering, network, slice      until the placement has ended
//	                     └▶ drain, slice, offloading, peering, home  after that
//
// "Home" means the objects in this cluster that are removed last: the network connection, the
// tenant namespace and the ForeignCluster of the peer.
package plan

import (
	"time"
)

// Verb names the operation of an Action.
type Verb string

// Verbs of the consumer and of the provider.
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

// Action is a verb with its arguments. An action that has already been carried out may be
// repeated.
type Action struct {
	Do Verb
	// Namespace is the offloaded namespace; set only for WriteOffloading and DeleteOffloading.
	Namespace string
	// Agreement is how to offload the namespace; set only for WriteOffloading.
	Agreement Agreement
	// Pods are the pods that must leave the node; set only for EvictPods and RemovePods.
	Pods []PodView
}

// ObjectView holds the facts about an object that a plan depends on.
type ObjectView struct {
	Exists bool
	// Ours is true for an object that the agent made. The agent may use others, but does not change them.
	Ours bool
	// Terminating is true while the object is being deleted and still has finalizers.
	Terminating bool
}

// IsUsable reports whether the object exists and is not being deleted.
func (o ObjectView) IsUsable() bool { return o.Exists && !o.Terminating }

// HomeView is what exists for a peer in this cluster when an instruction for that peer is
// about to be deleted.
type HomeView struct {
	Namespace ObjectView
	// Needed is true while another instruction, in either direction, has the peer. The rest is then not filled.
	Needed bool
	// Roots counts Liqo's objects for the peer that have no owner and are not being deleted:
	// Tenants, Identities, ResourceSlices and VirtualNodes. It also counts gateways that the
	// agent did not make.
	Roots int
	// Gateways counts the gateways that the agent made, and Leaving those of them that are being deleted.
	Gateways, Leaving int
	// Configured is true while a Configuration for the peer exists that the agent made. Mapped is
	// true while there is a Configuration for the peer that the agent did not make.
	Configured, Mapped bool
	// Dependents counts the objects that Liqo made because of the roots, and removes after them.
	Dependents int
	// StrayMap is true when a NamespaceMap for the peer still exists although no VirtualNode
	// does. Liqo leaves it behind when two VirtualNodes are deleted at the same time.
	StrayMap bool
	// ForeignCluster is true while the ForeignCluster object exists, in which Liqo summarizes
	// its relation to the peer.
	ForeignCluster bool
}

// recheckAfter returns the delay until the next check while gateways or a Configuration of the
// agent still exist; otherwise 0. An agent that no longer connects networks does not watch
// these objects, so it would miss their removal.
func (v *HomeView) recheckAfter() time.Duration {
	if v.Gateways > 0 || v.Configured {
		return networkLook
	}
	return 0
}

// planHome returns the actions that remove the network connection, the tenant namespace and
// the ForeignCluster, in this order, once no instruction needs them. Like liqoctl, it removes
// the gateways before the Configuration. done is true when nothing is left to remove, or when
// the rest must stay.
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
