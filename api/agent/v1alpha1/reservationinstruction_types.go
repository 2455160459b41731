package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// InstructionPhase summarizes the progress of an instruction for people. Programs should read
// conditions.
//
// +kubebuilder:validation:Enum=Pending;Provisioning;Peering;AwaitingNode;Active;Releasing;Released;Refused
type InstructionPhase string

// Phases of ReservationInstructions and ProviderInstructions.
const (
	// InstructionPending means that the agent has not started to carry out the instruction.
	InstructionPending InstructionPhase = "Pending"
	// InstructionProvisioning means that this cluster, as the provider, creates nodes for the
	// placement.
	InstructionProvisioning InstructionPhase = "Provisioning"
	// InstructionPeering means that the clusters are exchanging identities.
	InstructionPeering InstructionPhase = "Peering"
	// InstructionAwaitingNode means that the slice exists and the virtual node is not Ready
	// yet.
	InstructionAwaitingNode InstructionPhase = "AwaitingNode"
	// InstructionActive means that the virtual node is Ready (consumer) or the slice is granted
	// (provider).
	InstructionActive InstructionPhase = "Active"
	// InstructionReleasing means that the agent is removing what it created for the instruction.
	InstructionReleasing InstructionPhase = "Releasing"
	// InstructionReleased means that everything that the agent created for the instruction is gone.
	InstructionReleased InstructionPhase = "Released"
	// InstructionRefused means that this cluster, as the provider, refused the placement.
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

// Notice announces that a placement ends early.
type Notice struct {
	// reason is Preempted (a request of a higher priority needs the capacity) or Recalled (the
	// provider wants it back).
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

// Excess describes how far the pods of a placement exceeded what the provider granted.
type Excess struct {
	// pods is the number of pods that the provider has evicted because of the excess.
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// resources are the largest amounts, so far, by which pods exceeded the grant.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// IdleTime says that nobody uses a placement.
type IdleTime struct {
	// since is since when nobody uses it, by this cluster's clock.
	// +required
	Since metav1.Time `json:"since"`

	// releaseAt is when the broker releases the reservation unless a pod comes, by this cluster's
	// clock. It is empty if the reservation stays.
	// +optional
	ReleaseAt *metav1.Time `json:"releaseAt,omitempty"`
}

// Drain is the period in which the agent evicts the pods from a virtual node, by this cluster's
// clock.
type Drain struct {
	// startedAt is when the drain began.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// deadline is when the agent stops evicting and deletes the remaining pods, each with its own
	// grace period.
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

	// targetClusterEndpoint is the https address of the provider's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	TargetClusterEndpoint string `json:"targetClusterEndpoint,omitempty"`

	// resources are the reserved amounts. The virtual node has exactly these amounts.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// namespaces are the namespaces whose pods may run on the virtual node. If
	// spec.namespaces of the ResourceRequest is not set, this is the request's own namespace.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`

	// offloading says how the namespaces are offloaded. It is copied from the ResourceRequest.
	// +optional
	Offloading *Offloading `json:"offloading,omitempty"`

	// requestRef is the ResourceRequest that this instruction serves. It is empty for a
	// Reservation created in the broker cluster.
	// +optional
	RequestRef *RequestReference `json:"requestRef,omitempty"`

	// connectBy is the deadline, by this cluster's clock, for connecting the networks of the two
	// clusters. If the connection is still missing then, the broker gives the placement up. It is
	// set only while the broker waits for the network.
	// +optional
	ConnectBy *metav1.Time `json:"connectBy,omitempty"`

	// provisionBy is the deadline, by this cluster's clock, for the nodes that the provider creates
	// for the placement. If they are still missing then, the broker gives the placement up. It is set
	// only while the provider creates nodes.
	// +optional
	ProvisionBy *metav1.Time `json:"provisionBy,omitempty"`

	// expiresAt is when the reservation ends, by this cluster's clock. It is empty if the
	// reservation has no duration and the agent renews it.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// cost is what the reservation costs. Its times are by the broker's clock. It is not set if the
	// provider has no price.
	// +optional
	Cost *brokerv1alpha1.ReservationCost `json:"cost,omitempty"`

	// receipt is the broker's signed statement about this placement, made when it was granted,
	// changed or ended. The agent keeps the last one that it could verify.
	// +optional
	Receipt *brokerv1alpha1.Receipt `json:"receipt,omitempty"`

	// receiptProblem says why the agent did not accept the broker's last receipt. It is empty if
	// the agent accepted that receipt. A problem does not affect the placement.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ReceiptProblem string `json:"receiptProblem,omitempty"`

	// notice is set when the placement will end early.
	// +optional
	Notice *Notice `json:"notice,omitempty"`

	// excess is set once the provider has evicted pods that exceeded the grant.
	// +optional
	Excess *Excess `json:"excess,omitempty"`

	// idle is set while nobody uses the placement. Around idle.releaseAt the agent keeps new pods off
	// the virtual node, looks for pods once more, and lets the broker release the reservation if there
	// are none.
	// +optional
	Idle *IdleTime `json:"idle,omitempty"`

	// providerSilentSince is when the broker last received something from the provider, by this
	// cluster's clock. It is set only while the provider is silent.
	// +optional
	ProviderSilentSince *metav1.Time `json:"providerSilentSince,omitempty"`

	// moveAt is when the broker begins to look for another provider, by this cluster's clock. It is
	// set only while the provider is silent or the node is not Ready, and never with healing: Wait.
	// +optional
	MoveAt *metav1.Time `json:"moveAt,omitempty"`

	// reason is why the broker gave the placement up before the reservation ended, for example
	// ProviderLost.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// unattended is true when the provider has no agent. This agent then also does the provider's
	// part, for which it needs --peering-mode=kubeconfig and a kubeconfig of that cluster.
	// +optional
	Unattended bool `json:"unattended,omitempty"`

	// release is true when the placement has ended. The agent then removes everything that it
	// created for the placement, and sets status.phase to Released.
	// +optional
	Release bool `json:"release,omitempty"`
}

// ReservationInstructionStatus describes how far this cluster has carried out the instruction. The
// agent sets it.
type ReservationInstructionStatus struct {
	// phase summarizes the progress in one word, for people to read.
	// +optional
	Phase InstructionPhase `json:"phase,omitempty"`

	// delivered is true when the instruction is carried out: the virtual node is Ready, or the
	// agent runs with --peering-mode=none and has nothing to do.
	// +optional
	// +kubebuilder:default=false
	Delivered bool `json:"delivered,omitempty"`

	// nodeName is the name of the virtual node.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	NodeName string `json:"nodeName,omitempty"`

	// releasingSince is when the agent first saw that the placement had ended. The time of the
	// agent's flag --give-up-timeout counts from then.
	// +optional
	ReleasingSince *metav1.Time `json:"releasingSince,omitempty"`

	// message describes the progress in words, and the next step if the user has to act.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// drain is set once the placement has ended and the agent evicts the pods from its virtual
	// node.
	// +optional
	Drain *Drain `json:"drain,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// agent has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Peered, NodeReady and Offloading. Where they apply, NetworkConnected,
	// Healthy, PeeringSkipped, WithinGrant, Ending and Drained are added.
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

	// status describes how far this cluster has carried out the instruction.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ReservationInstructionStatus `json:"status,omitempty"`
}

// Ended reports whether the placement has ended, so that the agent must remove what it created for
// the placement.
func (r *ReservationInstruction) Ended() bool { return r.Spec.Release || r.DeletionTimestamp != nil }

// PlacementName returns the name of the placement, which is also that of its slice and virtual node.
func (r *ReservationInstruction) PlacementName() string {
	return brokerv1alpha1.PlacementName(r.Spec.ReservationName, r.Spec.Placement)
}

// ReservationInstructionList is a list of ReservationInstructions.
//
// +kubebuilder:object:root=true
type ReservationInstructionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ReservationInstruction `json:"items"`
}
