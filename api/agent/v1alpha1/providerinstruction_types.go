package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Hold is how a provider keeps reserved capacity that is not in use. Ledger counts it as taken
// in advertisements and admission. Placeholder also runs placeholder pods, so that the
// cluster's own pods cannot take it.
//
// +kubebuilder:validation:Enum=Ledger;Placeholder
type Hold string

// Values of Hold.
const (
	HoldLedger      Hold = "Ledger"
	HoldPlaceholder Hold = "Placeholder"
)

// ProviderInstructionSpec tells this cluster to keep capacity for another one. The agent sets
// it from the broker's instruction.
type ProviderInstructionSpec struct {
	// reservationName is the broker's name of the reservation.
	// +required
	// +kubebuilder:validation:MaxLength=63
	ReservationName string `json:"reservationName"`

	// placement is the number of the placement within the reservation, from 1. The only
	// ResourceSlice granted for it is named after reservationName and placement.
	// +required
	// +kubebuilder:validation:Minimum=1
	Placement int32 `json:"placement"`

	// requesterClusterID is the ID of the consumer.
	// +required
	// +kubebuilder:validation:MaxLength=63
	RequesterClusterID string `json:"requesterClusterID"`

	// resources are the amounts to keep.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// podShapes are the pods for which the consumer reserved. The agent accepts the placement only
	// if they all fit on this cluster's nodes, next to those promised to others.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PodShapes []brokerv1alpha1.PodShape `json:"podShapes,omitempty"`

	// nodeSelector are the labels of the nodes that the consumer asked for. The agent binds the
	// placement's pods to these nodes.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]brokerv1alpha1.LabelValue `json:"nodeSelector,omitempty"`

	// tolerations are the taints that the consumer asked to tolerate. The agent gives the
	// placement's pods a toleration for each of them that this cluster offers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []brokerv1alpha1.Toleration `json:"tolerations,omitempty"`

	// change is the number of the change of resources that awaits this cluster's answer; 0 if
	// there is none. Until the answer, status.granted stays in force.
	// +optional
	Change int64 `json:"change,omitempty"`

	// hold is how the capacity is kept: Ledger (the default) or Placeholder. The agent sets it
	// from its flag --hold.
	// +optional
	Hold Hold `json:"hold,omitempty"`

	// expiresAt is when the release of the reservation starts, by this cluster's clock. It is
	// empty while the consumer renews the reservation.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// release is true when the placement has ended: its slice is no longer granted. When
	// nothing of it is left, status.phase becomes Released.
	// +optional
	Release bool `json:"release,omitempty"`

	// unpeer is true when the consumer has taken down its side and the reservation has ended.
	// The last instruction of a consumer also removes the peering.
	// +optional
	Unpeer bool `json:"unpeer,omitempty"`
}

// RecalledPlacement describes a recall of this placement.
type RecalledPlacement struct {
	// since is when the placement was recalled. It does not change with the notice.
	// +required
	Since metav1.Time `json:"since"`

	// endsAt is when the placement ends at the latest, by this cluster's clock.
	// +required
	EndsAt metav1.Time `json:"endsAt"`

	// message tells the consumer why.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// ReducedGrant records the grant before a reduction that running pods still exceed.
type ReducedGrant struct {
	// resources are the amounts granted before. Pods created until at may use them.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// at is when this cluster agreed to the reduction.
	// +required
	At metav1.Time `json:"at"`
}

// GrantExcess records how far the pods of a placement exceeded its grant. It stays for the life
// of the placement.
type GrantExcess struct {
	// resources are the amounts by which pods exceed the grant now. It is empty when they fit.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// largest is the largest excess of each resource so far.
	// +optional
	Largest corev1.ResourceList `json:"largest,omitempty"`

	// evictedPods is the number of pods that the agent evicted for exceeding the grant.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EvictedPods int32 `json:"evictedPods,omitempty"`

	// lastSeen is when pods last exceeded the grant.
	// +required
	LastSeen metav1.Time `json:"lastSeen"`

	// cordoned is true while the agent refuses new pods of the placement, until one minute
	// after its pods fit again.
	// +optional
	Cordoned bool `json:"cordoned,omitempty"`
}

// ProviderInstructionStatus describes the progress of the provider. The agent sets it.
type ProviderInstructionStatus struct {
	// phase summarizes the progress for people.
	// +optional
	Phase InstructionPhase `json:"phase,omitempty"`

	// enforced is true while the capacity is kept and counts as reserved in this cluster's
	// Advertisement.
	// +optional
	Enforced bool `json:"enforced,omitempty"`

	// granted are the amounts that this cluster has agreed to keep. The consumer cannot get
	// more.
	// +optional
	Granted corev1.ResourceList `json:"granted,omitempty"`

	// change is the number of the last change of spec.resources that this cluster answered. The
	// condition Changed holds the answer.
	// +optional
	Change int64 `json:"change,omitempty"`

	// releasingSince is when the agent first saw that the placement had ended. The agent's
	// --reclaim-timeout counts from here.
	// +optional
	ReleasingSince *metav1.Time `json:"releasingSince,omitempty"`

	// reduced is set while running pods may use more than granted because the consumer agreed
	// to a reduction. The agent evicts no pods for a reduction.
	// +optional
	Reduced *ReducedGrant `json:"reduced,omitempty"`

	// excess is set once the placement's pods have used more than granted. The agent evicts the
	// newest pods until the others fit.
	// +optional
	Excess *GrantExcess `json:"excess,omitempty"`

	// recalled is set while a LendingPolicy recalls the placement.
	// +optional
	Recalled *RecalledPlacement `json:"recalled,omitempty"`

	// message describes the progress in words, and the next step if the operator has to act.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// agent has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Acknowledged and Granted; Changed after a change of resources; Held
	// with placeholder pods; and WithinGrant once pods have used more than granted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=12
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ProviderInstruction tells the provider to keep capacity for a consumer. The agent creates and
// deletes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pinst,categories={broker,liqo}
// +kubebuilder:selectablefield:JSONPath=`.spec.requesterClusterID`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Requester",type=string,JSONPath=`.spec.requesterClusterID`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.resources.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.resources.memory`
// +kubebuilder:printcolumn:name="Enforced",type=boolean,JSONPath=`.status.enforced`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type ProviderInstruction struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the capacity to keep.
	// +required
	Spec ProviderInstructionSpec `json:"spec"`

	// status describes the progress.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ProviderInstructionStatus `json:"status,omitempty"`
}

// Kept returns the amounts that this cluster has agreed to keep. While a change awaits an
// answer, spec.resources holds the requested amounts instead.
func (p *ProviderInstruction) Kept() corev1.ResourceList {
	if p.Status.Granted != nil {
		return p.Status.Granted
	}
	return p.Spec.Resources
}

// Ended reports whether the placement has ended, so that its slice is no longer granted.
func (p *ProviderInstruction) Ended() bool { return p.Spec.Release || p.DeletionTimestamp != nil }

// ProviderInstructionList is a list of ProviderInstructions.
//
// +kubebuilder:object:root=true
type ProviderInstructionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProviderInstruction `json:"items"`
}
