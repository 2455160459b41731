package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hold is how a provider keeps reserved capacity that is not used yet: Ledger (it counts as
// taken in what is advertised and admitted), or Placeholder (pods stand in for it, too, so
// that the cluster's own pods cannot take it).
//
// +kubebuilder:validation:Enum=Ledger;Placeholder
type Hold string

// Ways to hold capacity.
const (
	HoldLedger      Hold = "Ledger"
	HoldPlaceholder Hold = "Placeholder"
)

// ProviderInstructionSpec tells this cluster to keep capacity for another.
type ProviderInstructionSpec struct {
	// reservationName as the broker named it.
	// +required
	// +kubebuilder:validation:MaxLength=63
	ReservationName string `json:"reservationName"`

	// placement number within the reservation, from 1. With reservationName it
	// names the only ResourceSlice that is granted for it.
	// +required
	// +kubebuilder:validation:Minimum=1
	Placement int32 `json:"placement"`

	// requesterClusterID is the cluster that will use the capacity.
	// +required
	// +kubebuilder:validation:MaxLength=63
	RequesterClusterID string `json:"requesterClusterID"`

	// resources to keep.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// change numbers the change of resources that this cluster has to agree to; 0 if
	// there is none. Until it does, status.granted holds.
	// +optional
	Change int64 `json:"change,omitempty"`

	// hold is how the capacity is kept: Ledger (the default) or Placeholder. The agent
	// sets it as its flag --hold says.
	// +optional
	Hold Hold `json:"hold,omitempty"`

	// expiresAt is when the reservation starts to be released, by this cluster's
	// clock; empty while it is renewed.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// release is set when the placement has ended: its slice is no longer granted,
	// and once nothing of it is left status.phase becomes Released.
	// +optional
	Release bool `json:"release,omitempty"`

	// unpeer is set when the consumer has taken down its side and the reservation
	// is over for good: the last instruction of a consumer takes the peering
	// down with it.
	// +optional
	Unpeer bool `json:"unpeer,omitempty"`
}

// RecalledPlacement is until when a placement stays that is called back.
type RecalledPlacement struct {
	// since is when it was called back; it stays when the notice is changed.
	// +required
	Since metav1.Time `json:"since"`

	// endsAt is when it is given up at the latest, by this cluster's clock.
	// +required
	EndsAt metav1.Time `json:"endsAt"`

	// message tells the consumer why.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// ReducedGrant is what was granted before a reduction that pods have not followed yet.
type ReducedGrant struct {
	// resources that were granted before. Pods that were created until at may use them up.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// at is when less was agreed to.
	// +required
	At metav1.Time `json:"at"`
}

// GrantExcess is how far the pods of a placement went beyond what was granted. It stays for
// the life of the placement.
type GrantExcess struct {
	// resources by which pods exceed the grant now; empty when they fit.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// largest excess of each resource that was seen.
	// +optional
	Largest corev1.ResourceList `json:"largest,omitempty"`

	// evictedPods counts the pods that the agent evicted for it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EvictedPods int32 `json:"evictedPods,omitempty"`

	// lastSeen is when excess was seen last.
	// +required
	LastSeen metav1.Time `json:"lastSeen"`

	// cordoned is true while the agent keeps new pods of the placement out: until a minute
	// after its pods fit again.
	// +optional
	Cordoned bool `json:"cordoned,omitempty"`
}

// ProviderInstructionStatus is how far the provider is.
type ProviderInstructionStatus struct {
	// phase of the instruction.
	// +optional
	Phase InstructionPhase `json:"phase,omitempty"`

	// enforced is true while the capacity is kept: it counts as reserved in what
	// this cluster advertises.
	// +optional
	Enforced bool `json:"enforced,omitempty"`

	// granted are the resources that this cluster has agreed to keep: the most that the
	// consumer gets.
	// +optional
	Granted corev1.ResourceList `json:"granted,omitempty"`

	// change is the last change of spec.resources that was decided; the condition
	// Changed says how.
	// +optional
	Change int64 `json:"change,omitempty"`

	// releasingSince is when this cluster first saw that the placement has ended. From
	// here the agent counts its --reclaim-timeout.
	// +optional
	ReleasingSince *metav1.Time `json:"releasingSince,omitempty"`

	// reduced is set while pods may still use more than granted, because the consumer agreed
	// to less than they used: nothing is evicted for that.
	// +optional
	Reduced *ReducedGrant `json:"reduced,omitempty"`

	// excess is set once the placement's pods have used more than granted. The agent evicts
	// the newest of them until the others fit.
	// +optional
	Excess *GrantExcess `json:"excess,omitempty"`

	// recalled is set while the operator wants the placement back, see LendingPolicy.
	// +optional
	Recalled *RecalledPlacement `json:"recalled,omitempty"`

	// message says in words where it is and what to do, if anything.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// observedGeneration is the generation that this status speaks of; 0 means
	// not seen yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Acknowledged, Granted, after a change of resources Changed, with
	// placeholders Held, and once pods have used more than granted WithinGrant.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=12
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ProviderInstruction tells the provider to keep capacity for a consumer. The
// agent makes and removes it.
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

	// spec is what to do.
	// +required
	Spec ProviderInstructionSpec `json:"spec"`

	// status is how far it is.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ProviderInstructionStatus `json:"status,omitempty"`
}

// Kept are the resources that this cluster has agreed to, which spec.resources are only
// asked for while a change is not decided.
func (p *ProviderInstruction) Kept() corev1.ResourceList {
	if p.Status.Granted != nil {
		return p.Status.Granted
	}
	return p.Spec.Resources
}

// Ended is whether the placement has ended: its slice is not granted any more.
func (p *ProviderInstruction) Ended() bool { return p.Spec.Release || p.DeletionTimestamp != nil }

// ProviderInstructionList is a list of ProviderInstructions.
//
// +kubebuilder:object:root=true
type ProviderInstructionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProviderInstruction `json:"items"`
}
