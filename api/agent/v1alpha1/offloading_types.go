package v1alpha1

// PodOffloadingStrategy says where new pods of offloaded namespaces may run: Local (only in
// this cluster), Remote (only on virtual nodes) or LocalAndRemote.
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

// PodCompliance says whether the agent changes new pods of offloaded namespaces: None (it
// leaves them unchanged) or Enforce.
//
// +kubebuilder:validation:Enum=None;Enforce
type PodCompliance string

// Values of PodCompliance.
const (
	PodComplianceNone    PodCompliance = "None"
	PodComplianceEnforce PodCompliance = "Enforce"
)

// Offloading says how a request's namespaces are offloaded. Liqo keeps one strategy per
// namespace: requests that share a namespace must agree, and the first one wins.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podCompliance) || self.podCompliance != 'Enforce' || !has(self.podOffloadingStrategy) || self.podOffloadingStrategy != 'Local'",message="podCompliance Enforce pins pods to the virtual node, podOffloadingStrategy Local keeps them in this cluster: choose one"
type Offloading struct {
	// podOffloadingStrategy says where new pods of the namespaces may run: Local, Remote or
	// LocalAndRemote (the default). With any of them, the node selector
	// broker.fluidos.eu/reservation pins a pod to one reservation.
	// +optional
	PodOffloadingStrategy PodOffloadingStrategy `json:"podOffloadingStrategy,omitempty"`

	// namespaceMappingStrategy says what the namespaces are called at the provider: DefaultName
	// (the default, NAMESPACE-CLUSTER) or EnforceSameName. Both clusters must allow the latter:
	// the namespace here carries the label liqo.io/broker-same-name=true, and the guard of the
	// provider's agent chart lists it.
	// +optional
	NamespaceMappingStrategy NamespaceMappingStrategy `json:"namespaceMappingStrategy,omitempty"`

	// podCompliance makes new pods of the namespaces acceptable to providers that enforce
	// reservations. Enforce gives pods limits equal to their requests, and the node selector of
	// this request's reservation. None (the default) leaves them unchanged.
	// +optional
	PodCompliance PodCompliance `json:"podCompliance,omitempty"`
}
