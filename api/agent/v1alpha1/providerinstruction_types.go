package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Hold says how a provider keeps reserved capacity that the consumer does not use yet. With Ledger,
// advertisements and admission treat the capacity as in use. With Placeholder, the agent also runs
// placeholder pods, so that the scheduler cannot give the capacity to the cluster's own pods.
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

	// placement is the number of the placement within the reservation, from 1. Of the consumer's
	// ResourceSlices, only the one that is named after reservationName and placement is granted.
	// +required
	// +kubebuilder:validation:Minimum=1
	Placement int32 `json:"placement"`

	// requesterClusterID is the ID of the consumer.
	// +required
	// +kubebuilder:validation:MaxLength=63
	RequesterClusterID string `json:"requesterClusterID"`

	// resources are the amounts to keep for the consumer.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// podShapes are the pods for which the consumer reserved. The agent accepts the placement only
	// if they all fit on this cluster's nodes next to the pods that other placements may still
	// create.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PodShapes []brokerv1alpha1.PodShape `json:"podShapes,omitempty"`

	// nodeSelector lists the node labels that the consumer asked for. The agent makes the
	// placement's pods run only on nodes with these labels.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]brokerv1alpha1.LabelValue `json:"nodeSelector,omitempty"`

	// tolerations are the tolerations that the consumer asked for. The agent gives the placement's
	// pods those that match a taint that this cluster offers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []brokerv1alpha1.Toleration `json:"tolerations,omitempty"`

	// change is the number of a change of resources that this cluster has not answered yet; 0 if
	// there is none. Until the answer, the amounts in status.granted stay in force.
	// +optional
	Change int64 `json:"change,omitempty"`

	// hold says how the capacity is kept: Ledger (the default) or Placeholder. The agent copies it
	// from its flag --hold.
	// +optional
	Hold Hold `json:"hold,omitempty"`

	// expiresAt is when the reservation ends, by this cluster's clock. It is empty if the
	// reservation has no duration and the consumer renews it.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// receipt is the broker's signed statement about this placement, made when it was granted,
	// changed or ended. The agent keeps the last one that it could verify.
	// +optional
	Receipt *brokerv1alpha1.Receipt `json:"receipt,omitempty"`

	// receiptProblem says why the agent did not accept the broker's last receipt. It is empty if
	// the agent accepted that receipt. A problem does not affect the placement.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ReceiptProblem string `json:"receiptProblem,omitempty"`

	// release is true when the placement has ended. The agent then no longer grants its slice.
	// status.phase becomes Released once nothing of the placement is left.
	// +optional
	Release bool `json:"release,omitempty"`

	// unpeer is true when the reservation has ended and the consumer has removed its side of the
	// placement. If this is the last instruction for the consumer, the agent then also removes the
	// peering.
	// +optional
	Unpeer bool `json:"unpeer,omitempty"`
}

// RecalledPlacement describes the recall of a placement.
type RecalledPlacement struct {
	// since is when the placement was first recalled. A later change of the notice does not change
	// this time.
	// +required
	Since metav1.Time `json:"since"`

	// endsAt is when the placement ends at the latest, by this cluster's clock.
	// +required
	EndsAt metav1.Time `json:"endsAt"`

	// message tells the consumer why the placement is recalled.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// NewNodes are nodes of one group that a cluster creates for a placement.
type NewNodes struct {
	// group is the name of the group of nodes, from the agent's configuration file.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Group string `json:"group"`

	// count is the number of nodes. It is 0 if nodes that are created for other placements suffice.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count,omitempty"`
}

// ReducedGrant records what was granted before a reduction. It exists while running pods may still
// use more than the reduced amounts.
type ReducedGrant struct {
	// resources are the amounts granted before the reduction. Pods that were created before the
	// time in at may still use them.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// at is when this cluster agreed to the reduction.
	// +required
	At metav1.Time `json:"at"`
}

// GrantExcess records how far the pods of a placement exceeded its grant. Once set, it stays until
// the placement is gone.
type GrantExcess struct {
	// resources are the amounts by which the pods exceed the grant now. It is empty if the pods are
	// within the grant.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// largest is the largest amount by which each resource has exceeded the grant so far.
	// +optional
	Largest corev1.ResourceList `json:"largest,omitempty"`

	// evictedPods is the number of pods that the agent evicted for exceeding the grant.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EvictedPods int32 `json:"evictedPods,omitempty"`

	// lastSeen is when pods last exceeded the grant.
	// +required
	LastSeen metav1.Time `json:"lastSeen"`

	// cordoned is true while the agent refuses new pods of the placement: until one minute after
	// the pods are within the grant again.
	// +optional
	Cordoned bool `json:"cordoned,omitempty"`
}

// ProviderInstructionStatus describes how far this cluster has carried out the instruction. The
// agent sets it.
type ProviderInstructionStatus struct {
	// phase summarizes the progress in one word, for people to read.
	// +optional
	Phase InstructionPhase `json:"phase,omitempty"`

	// enforced is true while the capacity is kept and is part of the reserved amounts in this
	// cluster's Advertisement.
	// +optional
	// +kubebuilder:default=false
	Enforced bool `json:"enforced,omitempty"`

	// newNodes are the nodes that this cluster creates before it acknowledges the placement. Their
	// capacity is kept for the placement.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +kubebuilder:validation:MaxItems=16
	NewNodes []NewNodes `json:"newNodes,omitempty"`

	// granted are the amounts that this cluster has agreed to keep. The consumer cannot use more.
	// +optional
	Granted corev1.ResourceList `json:"granted,omitempty"`

	// change is the number of the last change of spec.resources that this cluster has answered. The
	// condition Changed says whether it was accepted.
	// +optional
	Change int64 `json:"change,omitempty"`

	// releasingSince is when the agent first saw that the placement had ended. The time of the
	// agent's flag --reclaim-timeout counts from then.
	// +optional
	ReleasingSince *metav1.Time `json:"releasingSince,omitempty"`

	// reduced is set after the consumer agreed to a reduction, as long as running pods may still use
	// more than granted. The agent evicts no pods because of the reduction alone.
	// +optional
	Reduced *ReducedGrant `json:"reduced,omitempty"`

	// excess is set once the placement's pods have used more than granted. The agent evicts the
	// newest pods until the rest is within the grant.
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

	// conditions are Ready, Acknowledged and Granted. Changed is added after a change of resources,
	// Held with placeholder pods, and WithinGrant once pods have used more than granted.
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

	// status describes how far this cluster has carried out the instruction.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ProviderInstructionStatus `json:"status,omitempty"`
}

// Kept returns the amounts that this cluster keeps for the consumer: status.granted or, before its
// first answer, spec.resources. While a change awaits an answer, spec.resources already contains
// the new amounts.
func (p *ProviderInstruction) Kept() corev1.ResourceList {
	if p.Status.Granted != nil {
		return p.Status.Granted
	}
	return p.Spec.Resources
}

// IsCounted reports whether this cluster keeps capacity for the placement: it has accepted the
// placement, or creates nodes for it.
func (p *ProviderInstruction) IsCounted() bool { return p.Status.Enforced || p.AwaitsNewNodes() }

// AwaitsNewNodes reports whether this cluster creates nodes for the placement.
func (p *ProviderInstruction) AwaitsNewNodes() bool { return len(p.Status.NewNodes) > 0 }

// Ended reports whether the placement has ended. The slice of an ended placement is no longer
// granted.
func (p *ProviderInstruction) Ended() bool { return p.Spec.Release || p.DeletionTimestamp != nil }

// PlacementName returns the name of the placement, which is also that of its slice and virtual node.
func (p *ProviderInstruction) PlacementName() string {
	return brokerv1alpha1.PlacementName(p.Spec.ReservationName, p.Spec.Placement)
}

// IsDecided reports whether this cluster has accepted or refused the placement.
func (p *ProviderInstruction) IsDecided() bool {
	c := meta.FindStatusCondition(p.Status.Conditions, ConditionAcknowledged)
	return c != nil && c.Status != metav1.ConditionUnknown
}

// ProviderInstructionList is a list of ProviderInstructions.
//
// +kubebuilder:object:root=true
type ProviderInstructionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ProviderInstruction `json:"items"`
}
