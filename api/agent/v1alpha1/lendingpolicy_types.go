package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LendingPolicyName is the name of the only LendingPolicy of a cluster.
const LendingPolicyName = "default"

// ClusterID is the ID of a cluster, the common name of its certificate.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a cluster ID must be a DNS label: lower-case letters, digits and '-' only"
type ClusterID string

// Consumers selects the clusters that may use this cluster's capacity.
//
// +kubebuilder:validation:XValidation:rule="!has(self.allow) || !has(self.deny) || self.allow.all(id, !(id in self.deny))",message="a cluster is in both allow and deny: leave it in one of them"
type Consumers struct {
	// allow lists the only clusters that this cluster lends to. When empty, it lends to all
	// clusters that the broker admits.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Allow []ClusterID `json:"allow,omitempty"`

	// deny lists clusters that this cluster does not lend to.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	Deny []ClusterID `json:"deny,omitempty"`
}

// EveryConsumer stands for all clusters in Recall.consumer.
const EveryConsumer = "*"

// Recall takes lent capacity back. The broker notifies the consumers and looks for other
// providers. Each placement ends when its replacement is Ready, at the latest when the notice
// is over. Removing the entry cancels the recall for placements that have not ended.
//
// +kubebuilder:validation:XValidation:rule="has(self.consumer) != has(self.reservation)",message="name either consumer or reservation"
type Recall struct {
	// consumer is the cluster whose placements are recalled; * selects all clusters. While the
	// entry exists, the cluster is granted nothing new.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == '*' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="consumer must be the ID of a cluster, or * for all"
	Consumer string `json:"consumer,omitempty"`

	// reservation is the reservation to recall, as in spec.reservationName of its
	// ProviderInstruction.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Reservation string `json:"reservation,omitempty"`

	// notice is the time from when the agent reads the entry until the placements end. It
	// defaults to 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="notice must be at least 0s and at most 720h, for example 1h30m"
	Notice *metav1.Duration `json:"notice,omitempty"`

	// message tells the consumers why, for example "maintenance of rack 4".
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// LendingPolicySpec says to which clusters this cluster lends. Except for recalls it applies to
// new placements only; existing ones stay.
type LendingPolicySpec struct {
	// paused stops all new lending.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// consumers selects the clusters that may use this cluster's capacity. It defaults to all
	// clusters.
	// +optional
	Consumers *Consumers `json:"consumers,omitempty"`

	// recalls take lent capacity back. When several match a placement, the shortest notice
	// applies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Recalls []Recall `json:"recalls,omitempty"`
}

// LendingPolicyStatus describes the policy that is in force. The agent sets it.
type LendingPolicyStatus struct {
	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// agent has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// message describes in words what is in force.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// placements is the number of placements of other clusters that this cluster holds capacity
	// for.
	// +optional
	Placements int32 `json:"placements,omitempty"`

	// refused is the number of placements that this policy refused and that the broker has not
	// withdrawn yet. The number stays low because the broker knows the policy.
	// +optional
	Refused int32 `json:"refused,omitempty"`

	// recalling is the number of recalled placements that have not ended.
	// +optional
	Recalling int32 `json:"recalling,omitempty"`

	// recalledUntil is when the last recalled placement ends at the latest. It is empty without
	// recalled placements.
	// +optional
	RecalledUntil *metav1.Time `json:"recalledUntil,omitempty"`

	// conditions are Ready (the agent applies this generation) and Lending (false while nothing
	// new is granted to any cluster).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LendingPolicy is the operator's consent: it says to which clusters this cluster lends. A
// cluster has at most one, named default. Without it the cluster lends to all clusters that the
// broker admits.
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

	// spec says to which clusters this cluster lends.
	// +optional
	Spec LendingPolicySpec `json:"spec,omitempty"`

	// status describes the policy that is in force.
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
