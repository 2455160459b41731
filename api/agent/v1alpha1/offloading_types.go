package v1alpha1

// PodOffloadingStrategy says where new pods of offloaded namespaces may run: Local (in
// this cluster alone), Remote (on virtual nodes alone) or LocalAndRemote.
//
// +kubebuilder:validation:Enum=Local;Remote;LocalAndRemote
type PodOffloadingStrategy string

// Strategies for pods, in Liqo's words.
const (
	PodOffloadingLocal          PodOffloadingStrategy = "Local"
	PodOffloadingRemote         PodOffloadingStrategy = "Remote"
	PodOffloadingLocalAndRemote PodOffloadingStrategy = "LocalAndRemote"
)

// NamespaceMappingStrategy says how namespaces are called at the provider: DefaultName
// (NAMESPACE-CLUSTER, after this cluster's ID) or EnforceSameName.
//
// +kubebuilder:validation:Enum=DefaultName;EnforceSameName
type NamespaceMappingStrategy string

// Strategies for names, in Liqo's words.
const (
	NamespaceMappingDefaultName     NamespaceMappingStrategy = "DefaultName"
	NamespaceMappingEnforceSameName NamespaceMappingStrategy = "EnforceSameName"
)

// PodCompliance says what happens to new pods of offloaded namespaces: None (they are left
// as they are) or Enforce.
//
// +kubebuilder:validation:Enum=None;Enforce
type PodCompliance string

// Values of PodCompliance.
const (
	PodComplianceNone    PodCompliance = "None"
	PodComplianceEnforce PodCompliance = "Enforce"
)

// Offloading says how a request's namespaces are offloaded. Liqo keeps one strategy for a
// namespace: requests that name the same one have to want the same, and the first is
// heeded.
//
// +kubebuilder:validation:XValidation:rule="!has(self.podCompliance) || self.podCompliance != 'Enforce' || !has(self.podOffloadingStrategy) || self.podOffloadingStrategy != 'Local'",message="podCompliance Enforce pins pods to the virtual node, podOffloadingStrategy Local keeps them in this cluster: choose one"
type Offloading struct {
	// podOffloadingStrategy says where new pods of the namespaces may run: Local,
	// Remote or LocalAndRemote (the default). Whatever it says, a pod is pinned to a
	// request with the node selector broker.fluidos.eu/reservation.
	// +optional
	PodOffloadingStrategy PodOffloadingStrategy `json:"podOffloadingStrategy,omitempty"`

	// namespaceMappingStrategy says how the namespaces are called at the provider:
	// DefaultName (the default), NAMESPACE-CLUSTER, or EnforceSameName, which both
	// clusters must allow: here the namespace carries the label
	// liqo.io/broker-same-name=true, there the guard of the agent's chart lists it.
	// +optional
	NamespaceMappingStrategy NamespaceMappingStrategy `json:"namespaceMappingStrategy,omitempty"`

	// podCompliance makes new pods of the namespaces such as a provider admits that
	// enforces the reservation: Enforce gives them limits equal to requests and the node
	// selector of this request's reservation. None (the default) leaves them as they are.
	// +optional
	PodCompliance PodCompliance `json:"podCompliance,omitempty"`
}
