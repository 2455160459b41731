package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LendingPolicyName is the name of the only LendingPolicy of a cluster.
const LendingPolicyName = "default"

// ClusterID is the ID of a cluster, as its certificate names it.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a cluster ID must be a DNS label: lower-case letters, digits and '-' only"
type ClusterID string

// Consumers are the clusters that may come.
//
// +kubebuilder:validation:XValidation:rule="!has(self.allow) || !has(self.deny) || self.allow.all(id, !(id in self.deny))",message="a cluster is in both allow and deny: leave it in one of them"
type Consumers struct {
	// allow are the only clusters that this one lends to. Without any it lends to all
	// that the broker has admitted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Allow []ClusterID `json:"allow,omitempty"`

	// deny are clusters that this one does not lend to.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Deny []ClusterID `json:"deny,omitempty"`
}

// EveryConsumer stands for all clusters in Recall.consumer.
const EveryConsumer = "*"

// Recall calls capacity back that is lent. The broker gives its consumers notice, looks for
// another provider beside this one, and takes the placements down here at the end at the
// latest. Without this entry they stay, as far as they have not moved yet.
//
// +kubebuilder:validation:XValidation:rule="has(self.consumer) != has(self.reservation)",message="name either consumer or reservation"
type Recall struct {
	// consumer whose placements are called back, * for all consumers. Nothing new is
	// granted to it while this entry stands.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == '*' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="consumer must be the ID of a cluster, or * for all"
	Consumer string `json:"consumer,omitempty"`

	// reservation that is called back, as spec.reservationName of its ProviderInstruction.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Reservation string `json:"reservation,omitempty"`

	// notice is from the moment in which this agent reads the entry until the placements
	// are taken down. It defaults to 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="notice must be at least 0s and at most 720h, for example 1h30m"
	Notice *metav1.Duration `json:"notice,omitempty"`

	// message tells the consumers why, for example "maintenance of rack 4".
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// LendingPolicySpec says to whom this cluster lends. But for recalls it concerns what is
// granted from now on: what runs stays.
type LendingPolicySpec struct {
	// paused grants nothing new, to nobody.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// consumers are the clusters that may come; all if left out.
	// +optional
	Consumers *Consumers `json:"consumers,omitempty"`

	// recalls call capacity back that is lent. Where several speak of a placement, that
	// with the shortest notice counts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Recalls []Recall `json:"recalls,omitempty"`
}

// LendingPolicyStatus says what is in force.
type LendingPolicyStatus struct {
	// observedGeneration is the generation that this status speaks of; 0 means
	// not seen yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// message says in words what is in force.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// placements are how many placements of other clusters this one keeps capacity for.
	// +optional
	Placements int32 `json:"placements,omitempty"`

	// refused are how many placements were refused by this policy and are not given back
	// to the broker yet. The broker asks for few: it knows the policy.
	// +optional
	Refused int32 `json:"refused,omitempty"`

	// recalling are how many placements are called back and not given up yet.
	// +optional
	Recalling int32 `json:"recalling,omitempty"`

	// recalledUntil is when the last of them is given up at the latest; empty without any.
	// +optional
	RecalledUntil *metav1.Time `json:"recalledUntil,omitempty"`

	// conditions are Ready, true when the agent goes by this generation, and Lending, false
	// while nothing new is granted to anybody.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LendingPolicy is the consent of this cluster's operator: to whom it lends. There is
// one, named default; without it the cluster lends to all that the broker has admitted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=lend,categories={broker,liqo}
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one LendingPolicy: name it default"
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Placements",type=integer,JSONPath=`.status.placements`
// +kubebuilder:printcolumn:name="Recalling",type=integer,JSONPath=`.status.recalling`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type LendingPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says to whom this cluster lends.
	// +optional
	Spec LendingPolicySpec `json:"spec,omitempty"`

	// status says what is in force.
	// +optional
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status LendingPolicyStatus `json:"status,omitempty"`
}

// LendingPolicyList is a list of LendingPolicies.
//
// +kubebuilder:object:root=true
type LendingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LendingPolicy `json:"items"`
}
