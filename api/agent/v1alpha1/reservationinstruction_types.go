package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InstructionPhase summarizes the progress of an instruction for people. Programs should read
// conditions.
//
// +kubebuilder:validation:Enum=Pending;Peering;AwaitingNode;Active;Releasing;Released;Refused
type InstructionPhase string

// Phases of ReservationInstructions and ProviderInstructions.
const (
	// InstructionPending means that the agent has not started.
	InstructionPending InstructionPhase = "Pending"
	// InstructionPeering means that the clusters are exchanging identities.
	InstructionPeering InstructionPhase = "Peering"
	// InstructionAwaitingNode means that the slice exists and the virtual node is not Ready
	// yet.
	InstructionAwaitingNode InstructionPhase = "AwaitingNode"
	// InstructionActive means that the virtual node is Ready (consumer) or the slice is granted
	// (provider).
	InstructionActive InstructionPhase = "Active"
	// InstructionReleasing means that the agent is taking down what it created.
	InstructionReleasing InstructionPhase = "Releasing"
	// InstructionReleased means that nothing is left.
	InstructionReleased InstructionPhase = "Released"
	// InstructionRefused means that this provider refused the placement.
	InstructionRefused InstructionPhase = "Refused"
)

// RequestReference names the ResourceRequest that an instruction serves.
type RequestReference struct {
	// namespace is the namespace of the ResourceRequest.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name is the name of the ResourceRequest.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid is the UID of the ResourceRequest.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// Notice announces the end of a placement.
type Notice struct {
	// reason is Preempted (for a request of a higher priority) or Recalled (by its provider).
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// endsAt is when the placement ends, by this cluster's clock.
	// +required
	EndsAt metav1.Time `json:"endsAt"`

	// message explains the notice in words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// Excess describes how far pods exceeded the grant.
type Excess struct {
	// pods is the number of pods that the provider has evicted for it.
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// resources are the largest amounts beyond the grant.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// Drain is the period in which pods are evicted from a virtual node, by this cluster's clock.
type Drain struct {
	// startedAt is when the drain began.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// deadline is when the remaining pods are deleted, each with its own grace period.
	// +required
	Deadline metav1.Time `json:"deadline"`
}

// ReservationInstructionSpec tells this cluster to use reserved capacity. The agent sets it
// from the broker's instruction.
type ReservationInstructionSpec struct {
	// reservationName is the broker's name of the reservation.
	// +required
	// +kubebuilder:validation:MaxLength=63
	ReservationName string `json:"reservationName"`

	// placement is the number of the placement within the reservation, from 1. The
	// ResourceSlice and the virtual node are named after reservationName and placement.
	// +required
	// +kubebuilder:validation:Minimum=1
	Placement int32 `json:"placement"`

	// targetClusterID is the ID of the provider.
	// +required
	// +kubebuilder:validation:MaxLength=40
	TargetClusterID string `json:"targetClusterID"`

	// targetClusterEndpoint is the address of the provider's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	TargetClusterEndpoint string `json:"targetClusterEndpoint,omitempty"`

	// resources are the reserved amounts.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// namespaces are the namespaces whose pods may run on the virtual node. The agent has
	// already applied the default of the ResourceRequest.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	// offloading says how these namespaces are offloaded. It is copied from the
	// ResourceRequest.
	// +optional
	Offloading *Offloading `json:"offloading,omitempty"`

	// requestRef is the ResourceRequest that this instruction serves. It is empty for a
	// Reservation created in the broker cluster.
	// +optional
	RequestRef *RequestReference `json:"requestRef,omitempty"`

	// connectBy is when the broker gives the placement up if its network is not set up, by this
	// cluster's clock. It is set only while the broker waits for the network.
	// +optional
	ConnectBy *metav1.Time `json:"connectBy,omitempty"`

	// expiresAt is when the release of the reservation starts, by this cluster's clock. It is
	// empty while the agent renews the reservation.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// notice is set when the placement must end soon.
	// +optional
	Notice *Notice `json:"notice,omitempty"`

	// excess is set once the provider has evicted pods that exceeded the grant.
	// +optional
	Excess *Excess `json:"excess,omitempty"`

	// providerSilentSince is when the broker last received something from the provider, by this
	// cluster's clock. It is set only while the provider is silent.
	// +optional
	ProviderSilentSince *metav1.Time `json:"providerSilentSince,omitempty"`

	// unattended is true when the provider has no agent. This agent then does the provider's
	// part too; it needs --peering-mode=kubeconfig and a kubeconfig of that cluster.
	// +optional
	Unattended bool `json:"unattended,omitempty"`

	// release is true when the placement has ended. The agent takes down everything created for
	// it, then sets status.phase to Released.
	// +optional
	Release bool `json:"release,omitempty"`
}

// ReservationInstructionStatus describes the progress of the consumer. The agent sets it.
type ReservationInstructionStatus struct {
	// phase summarizes the progress for people.
	// +optional
	Phase InstructionPhase `json:"phase,omitempty"`

	// delivered is true when the instruction is carried out: the virtual node is Ready, or
	// peering is skipped.
	// +optional
	Delivered bool `json:"delivered,omitempty"`

	// nodeName is the name of the virtual node.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	NodeName string `json:"nodeName,omitempty"`

	// releasingSince is when the agent first saw that the placement had ended. The agent's
	// --give-up-timeout counts from here.
	// +optional
	ReleasingSince *metav1.Time `json:"releasingSince,omitempty"`

	// message describes the progress in words, and the next step if the user has to act.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// drain is set once the placement has ended and the agent empties its virtual node.
	// +optional
	Drain *Drain `json:"drain,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// agent has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Peered, NodeReady and Offloading, and where they apply
	// NetworkConnected, Healthy, PeeringSkipped, WithinGrant, Ending and Drained.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReservationInstruction tells the consumer to turn reserved capacity into a virtual node. The
// agent creates and deletes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rinst,categories={broker,liqo}
// +kubebuilder:selectablefield:JSONPath=`.spec.targetClusterID`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.targetClusterID`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.resources.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.resources.memory`
// +kubebuilder:printcolumn:name="Delivered",type=boolean,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type ReservationInstruction struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the capacity to use.
	// +required
	Spec ReservationInstructionSpec `json:"spec"`

	// status describes the progress.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ReservationInstructionStatus `json:"status,omitempty"`
}

// Ended reports whether the placement has ended, so that the agent must take it down.
func (r *ReservationInstruction) Ended() bool { return r.Spec.Release || r.DeletionTimestamp != nil }

// ReservationInstructionList is a list of ReservationInstructions.
//
// +kubebuilder:object:root=true
type ReservationInstructionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReservationInstruction `json:"items"`
}
