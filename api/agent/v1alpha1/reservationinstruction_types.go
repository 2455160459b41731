package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InstructionPhase is where an instruction is, for people; machines read conditions.
//
// +kubebuilder:validation:Enum=Pending;Peering;AwaitingNode;Active;Releasing;Released;Refused
type InstructionPhase string

// Phases of ReservationInstructions and ProviderInstructions.
const (
	// InstructionPending means that nothing was done yet.
	InstructionPending InstructionPhase = "Pending"
	// InstructionPeering means that the clusters exchange identities.
	InstructionPeering InstructionPhase = "Peering"
	// InstructionAwaitingNode means that the slice is made and the virtual node is
	// not Ready yet.
	InstructionAwaitingNode InstructionPhase = "AwaitingNode"
	// InstructionActive means that the virtual node is Ready (consumer) or the
	// slice is granted (provider).
	InstructionActive InstructionPhase = "Active"
	// InstructionReleasing means that what was made is being taken down.
	InstructionReleasing InstructionPhase = "Releasing"
	// InstructionReleased means that nothing is left.
	InstructionReleased InstructionPhase = "Released"
	// InstructionRefused means that this provider did not accept.
	InstructionRefused InstructionPhase = "Refused"
)

// RequestReference names the ResourceRequest that an instruction serves.
type RequestReference struct {
	// namespace of the ResourceRequest.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name of the ResourceRequest.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid of the ResourceRequest.
	// +required
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid"`
}

// Notice says that a placement has to go.
type Notice struct {
	// reason is Preempted, for a request of a higher priority, or Recalled, by its provider.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// endsAt is when it is taken down, by this cluster's clock.
	// +required
	EndsAt metav1.Time `json:"endsAt"`

	// message for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// Excess is how far pods went beyond what was granted.
type Excess struct {
	// pods is how many the provider has evicted for that so far.
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// resources are the largest amounts beyond the grant.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// Drain is the time in which pods are evicted from a virtual node, by this cluster's
// clock.
type Drain struct {
	// startedAt is when it began.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// deadline is when pods that are left are deleted, with the grace period of each.
	// +required
	Deadline metav1.Time `json:"deadline"`
}

// ReservationInstructionSpec tells this cluster to use reserved capacity.
type ReservationInstructionSpec struct {
	// reservationName as the broker named it.
	// +required
	// +kubebuilder:validation:MaxLength=63
	ReservationName string `json:"reservationName"`

	// placement number within the reservation, from 1. With reservationName it
	// names the ResourceSlice and the virtual node.
	// +required
	// +kubebuilder:validation:Minimum=1
	Placement int32 `json:"placement"`

	// targetClusterID is the provider.
	// +required
	// +kubebuilder:validation:MaxLength=40
	TargetClusterID string `json:"targetClusterID"`

	// targetClusterEndpoint is the provider's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	TargetClusterEndpoint string `json:"targetClusterEndpoint,omitempty"`

	// resources that were reserved.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// namespaces whose pods may run on the virtual node. The agent has already
	// resolved what the ResourceRequest left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	// offloading says how these namespaces are offloaded, as the ResourceRequest does.
	// +optional
	Offloading *Offloading `json:"offloading,omitempty"`

	// requestRef is the ResourceRequest this serves; empty for a Reservation made
	// in the broker cluster.
	// +optional
	RequestRef *RequestReference `json:"requestRef,omitempty"`

	// expiresAt is when the reservation starts to be released, by this cluster's
	// clock; empty while it is renewed.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// notice says that the placement has to make room soon.
	// +optional
	Notice *Notice `json:"notice,omitempty"`

	// excess is set once the provider has evicted pods that exceeded the grant.
	// +optional
	Excess *Excess `json:"excess,omitempty"`

	// providerSilentSince is when the broker has heard of the provider last, by this
	// cluster's clock; empty unless it is silent.
	// +optional
	ProviderSilentSince *metav1.Time `json:"providerSilentSince,omitempty"`

	// unattended is true where no agent speaks for the provider: this agent does its part
	// too, with --peering-mode=kubeconfig and a kubeconfig of that cluster.
	// +optional
	Unattended bool `json:"unattended,omitempty"`

	// release is set when the placement has ended: everything made for it is
	// taken down, then status.phase becomes Released.
	// +optional
	Release bool `json:"release,omitempty"`
}

// ReservationInstructionStatus is how far the consumer is.
type ReservationInstructionStatus struct {
	// phase of the instruction.
	// +optional
	Phase InstructionPhase `json:"phase,omitempty"`

	// delivered is true when the instruction is carried out: the virtual node is
	// Ready, or peering is skipped.
	// +optional
	Delivered bool `json:"delivered,omitempty"`

	// nodeName of the virtual node.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	NodeName string `json:"nodeName,omitempty"`

	// releasingSince is when this cluster first saw that the placement has ended. From
	// here the agent counts its --give-up-timeout.
	// +optional
	ReleasingSince *metav1.Time `json:"releasingSince,omitempty"`

	// message says in words where it is and what to do, if anything.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// drain is set once the placement has ended and its virtual node is emptied.
	// +optional
	Drain *Drain `json:"drain,omitempty"`

	// observedGeneration is the generation that this status speaks of; 0 means
	// not seen yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Peered, NodeReady, Offloading and PeeringSkipped; towards the
	// end Ending and Drained.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReservationInstruction tells the consumer to turn reserved capacity into a
// virtual node. The agent makes and removes it.
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

	// spec is what to do.
	// +required
	Spec ReservationInstructionSpec `json:"spec"`

	// status is how far it is.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ReservationInstructionStatus `json:"status,omitempty"`
}

// Ended is whether the placement is to be taken down.
func (r *ReservationInstruction) Ended() bool { return r.Spec.Release || r.DeletionTimestamp != nil }

// ReservationInstructionList is a list of ReservationInstructions.
//
// +kubebuilder:object:root=true
type ReservationInstructionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReservationInstruction `json:"items"`
}
