package v1alpha1

// PodOffloadingStrategy says where new pods of offloaded namespaces run unless they select a
// request's virtual node: Local (in this cluster), Remote (only on virtual nodes) or
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

// NamespaceMappingStrategy says what a namespace is called at the provider: DefaultName
// (NAMESPACE-CLUSTER, with this cluster's ID) or EnforceSameName.
//
// +kubebuilder:validation:Enum=DefaultName;EnforceSameName
type NamespaceMappingStrategy string

// Values of NamespaceMappingStrategy, as in Liqo.
const (
	NamespaceMappingDefaultName     NamespaceMappingStrategy = "DefaultName"
	NamespaceMappingEnforceSameName NamespaceMappingStrategy = "EnforceSameName"
)

// PodCompliance says which new pods of offloaded namespaces the agent makes acceptable to
// providers that enforce reservations: None, those that are Pinned to the request, or all of
// them (Enforce).
//
// +kubebuilder:validation:Enum=None;Pinned;Enforce
type PodCompliance string

// Values of PodCompliance.
const (
	PodComplianceNone    PodCompliance = "None"
	PodCompliancePinned  PodCompliance = "Pinned"
	PodComplianceEnforce PodCompliance = "Enforce"
)

// Offloading says how a request's namespaces are offloaded. Liqo keeps one strategy per
// namespace: requests that share a namespace must agree, and the first one wins.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podCompliance) || self.podCompliance != 'Enforce' || !has(self.podOffloadingStrategy) || self.podOffloadingStrategy != 'Local'",message="podCompliance Enforce pins pods to the virtual node, podOffloadingStrategy Local keeps them in this cluster: choose one"
type Offloading struct {
	// podOffloadingStrategy says where new pods of the namespaces run that do not select the
	// virtual node: Local (the default) leaves them in this cluster, Remote sends them to virtual
	// nodes, and with LocalAndRemote, the default with podCompliance Enforce, they run wherever
	// the scheduler finds room. With any of them, the node selector broker.fluidos.eu/request
	// pins a pod to a request.
	// +optional
	PodOffloadingStrategy PodOffloadingStrategy `json:"podOffloadingStrategy,omitempty"`

	// namespaceMappingStrategy says what the namespaces are called at the provider: DefaultName
	// (the default, NAMESPACE-CLUSTER) or EnforceSameName. Both clusters must allow the latter:
	// the namespace here carries the label liqo.io/broker-same-name=true, and the guard of the
	// provider's agent chart lists it.
	// +optional
	NamespaceMappingStrategy NamespaceMappingStrategy `json:"namespaceMappingStrategy,omitempty"`

	// podCompliance makes new pods acceptable to providers that enforce reservations. Pinned (the
	// default) gives pods that select the request's node limits equal to their requests. Enforce
	// does so for all new pods of the namespaces, gives them the node selector of this request's
	// reservation, and refuses those without requests. None leaves all pods unchanged.
	// +optional
	PodCompliance PodCompliance `json:"podCompliance,omitempty"`
}
