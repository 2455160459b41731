package v1alpha1

// PodOffloadingStrategy says where new pods of offloaded namespaces run, unless they select the
// virtual node of a request: Local (in this cluster), Remote (only on virtual nodes) or
// LocalAndRemote.
//
// +kubebuilder:validation:Enum=Local;Remote;LocalAndRemote
type PodOffloadingStrategy string

// Values of PodOffloadingStrategy, as in Liqo.
const (
	PodOffloadingLocal          PodOffloadingStrategy = "Local"
	PodOffloadingRemote         PodOffloadingStrategy = "Remote"
	PodOffloadingLocalAndRemote PodOffloadingStrategy = "LocalAndRemote"
)

// NamespaceMappingStrategy says what name an offloaded namespace has at the provider. DefaultName
// means NAMESPACE-CLUSTER, where CLUSTER is this cluster's ID; EnforceSameName means the name that
// it has here.
//
// +kubebuilder:validation:Enum=DefaultName;EnforceSameName
type NamespaceMappingStrategy string

// Values of NamespaceMappingStrategy, as in Liqo.
const (
	NamespaceMappingDefaultName     NamespaceMappingStrategy = "DefaultName"
	NamespaceMappingEnforceSameName NamespaceMappingStrategy = "EnforceSameName"
)

// PodCompliance says which new pods of offloaded namespaces the agent changes so that providers
// that enforce reservations accept them: None, Pinned (pods that select the request's virtual node)
// or Enforce (all pods).
//
// +kubebuilder:validation:Enum=None;Pinned;Enforce
type PodCompliance string

// Values of PodCompliance.
const (
	PodComplianceNone    PodCompliance = "None"
	PodCompliancePinned  PodCompliance = "Pinned"
	PodComplianceEnforce PodCompliance = "Enforce"
)

// Offloading says how a request's namespaces are offloaded. Liqo has one strategy per namespace.
// If requests with different strategies share a namespace, only the strategy of the oldest request
// applies.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podCompliance) || self.podCompliance != 'Enforce' || !has(self.podOffloadingStrategy) || self.podOffloadingStrategy != 'Local'",message="podCompliance Enforce pins pods to the virtual node, podOffloadingStrategy Local keeps them in this cluster: choose one"
type Offloading struct {
	// podOffloadingStrategy says where new pods of the namespaces run if they do not select the
	// virtual node. Local (the default) keeps them in this cluster. Remote sends them to virtual
	// nodes. LocalAndRemote, the default with podCompliance Enforce, lets the scheduler choose among
	// all nodes. With each strategy, pods can select a request's node with the node selector
	// broker.fluidos.eu/request.
	// +optional
	PodOffloadingStrategy PodOffloadingStrategy `json:"podOffloadingStrategy,omitempty"`

	// namespaceMappingStrategy says what names the namespaces have at the provider: DefaultName
	// (the default, NAMESPACE-CLUSTER) or EnforceSameName (the same as here). Both clusters must
	// allow EnforceSameName: the namespace here needs the label liqo.io/broker-same-name=true, and
	// the guard settings of the provider's agent chart must list its name.
	// +optional
	NamespaceMappingStrategy NamespaceMappingStrategy `json:"namespaceMappingStrategy,omitempty"`

	// podCompliance changes new pods so that providers that enforce reservations accept them. Pinned
	// (the default) makes limits and requests equal in pods that select the request's virtual node.
	// Enforce does so for all new pods of the namespaces, gives them the node selector of this
	// request's reservation, and refuses pods without requests for cpu and memory. None leaves all
	// pods unchanged.
	// +optional
	PodCompliance PodCompliance `json:"podCompliance,omitempty"`
}
