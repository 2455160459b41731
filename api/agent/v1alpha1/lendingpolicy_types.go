package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LendingPolicyName is the name that the only LendingPolicy of a cluster must have.
const LendingPolicyName = "default"

// ClusterID is the ID of a cluster. It equals the common name of the cluster's certificate.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a cluster ID must be a DNS label: lower-case letters, digits and '-' only"
type ClusterID string

// Consumers selects the clusters that may use this cluster's capacity.
//
// +kubebuilder:validation:XValidation:rule="!has(self.allow) || !has(self.deny) || self.allow.all(id, !(id in self.deny))",message="a cluster is in both allow and deny: leave it in one of them"
type Consumers struct {
	// allow lists the only clusters that this cluster lends to. If it is empty, the cluster lends
	// to all clusters that the broker admits, except those in deny.
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

// EveryConsumer is the value of Recall.consumer that selects all clusters.
const EveryConsumer = "*"

// Recall takes lent capacity back. The broker notifies the consumers and looks for other
// providers. Each placement ends when its replacement is Ready, or at the latest when the notice
// is over. Removing the entry from spec.recalls calls off the recall for all placements that have
// not ended yet.
//
// +kubebuilder:validation:XValidation:rule="has(self.consumer) != has(self.reservation)",message="name either consumer or reservation"
type Recall struct {
	// consumer is the ID of the cluster whose placements are recalled; * selects all clusters.
	// While the entry exists, this consumer gets no new capacity from this cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == '*' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="consumer must be the ID of a cluster, or * for all"
	Consumer string `json:"consumer,omitempty"`

	// reservation is the name of the reservation to recall, as in spec.reservationName of its
	// ProviderInstruction.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Reservation string `json:"reservation,omitempty"`

	// notice is how long the placements may still last, from when the agent first reads the entry.
	// It defaults to 10m.
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

// LendingPolicySpec says to which clusters this cluster lends. paused and consumers affect only new
// placements; only recalls end existing ones.
type LendingPolicySpec struct {
	// paused stops all new lending while it is true.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// consumers selects the clusters that may use this cluster's capacity. It defaults to all
	// clusters.
	// +optional
	Consumers *Consumers `json:"consumers,omitempty"`

	// recalls say which lent capacity the operator takes back. If several of them match a
	// placement, the shortest notice applies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Recalls []Recall `json:"recalls,omitempty"`
}

// LendingPolicyStatus describes how the agent applies the policy. The agent sets it.
type LendingPolicyStatus struct {
	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// agent has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// message describes the policy that is in force, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// placements is the number of placements of other clusters that this cluster holds capacity
	// for.
	// +optional
	// +kubebuilder:default=0
	Placements int32 `json:"placements,omitempty"`

	// refused is the number of placements that this cluster refused because of the policy and that
	// the broker has not withdrawn yet. It is usually low, because the broker also considers the
	// policy.
	// +optional
	Refused int32 `json:"refused,omitempty"`

	// recalling is the number of placements that are recalled and have not ended.
	// +optional
	// +kubebuilder:default=0
	Recalling int32 `json:"recalling,omitempty"`

	// recalledUntil is when the last of the recalled placements ends at the latest. It is empty if
	// no placement is recalled.
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

// LendingPolicy says to which clusters this cluster lends. There is at most one, named default;
// the operator creates it. Without it, the cluster lends to all clusters that the broker admits.
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

	// status describes how the agent applies the policy.
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
