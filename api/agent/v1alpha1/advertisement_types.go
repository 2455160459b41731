package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// AdvertisementSpec describes what this cluster offers. The agent computes it from nodes and
// pods; only cost is set by the operator.
type AdvertisementSpec struct {
	// clusterID is the ID of this cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// clusterName is a display name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName,omitempty"`

	// endpointURL is the https address of this cluster's API server, as other clusters reach
	// it.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	EndpointURL string `json:"endpointURL,omitempty"`

	// topology is the region and zone of the cluster.
	// +optional
	Topology *brokerv1alpha1.Topology `json:"topology,omitempty"`

	// resources are the cluster's amounts. For each enforced ProviderInstruction, reserved
	// includes the reserved or the used amount, whichever is larger.
	// +required
	Resources brokerv1alpha1.ResourceMetrics `json:"resources"`

	// withheld is the part of resources.allocated that no pod requests: capacity that the
	// agent's configuration keeps for this cluster.
	// +optional
	Withheld corev1.ResourceList `json:"withheld,omitempty"`

	// pending is the sum of the requests of this cluster's own pods that the scheduler cannot
	// place. Its key pods counts these pods. It is empty when there are none. Pending amounts
	// are in no other field and are not sent to the broker. The agent writes pending at once
	// when it changes by more than 2 % of the allocatable amount, and with the next
	// advertisement when it changes by 2 % of itself. It lists at most 32 resources, those that
	// the cluster has first.
	// +optional
	Pending corev1.ResourceList `json:"pending,omitempty"`

	// overSubscription is the factor by which this cluster offers to over-commit each resource.
	// It is at most the factor that the agent's configuration allows, and no higher than current
	// reservations need. The amounts in resources are not multiplied by it.
	// +optional
	OverSubscription brokerv1alpha1.OverSubscription `json:"overSubscription,omitempty"`

	// nodeShapes groups nodes by free capacity.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NodeShapes []brokerv1alpha1.NodeShape `json:"nodeShapes,omitempty"`

	// cost is the price of the capacity. The operator sets it here, in the existing
	// Advertisement; the agent keeps it.
	// +optional
	Cost *brokerv1alpha1.Cost `json:"cost,omitempty"`

	// labels are the labels of the cluster. The clusterSelector of a request matches against
	// them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]brokerv1alpha1.LabelValue `json:"labels,omitempty"`

	// claims are statements of the cluster about itself by name, for example availability:
	// "99.9" or gdpr: "true". A request can require them. The broker does not verify them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Claims map[string]brokerv1alpha1.LabelValue `json:"claims,omitempty"`

	// timestamp is when the agent counted the amounts, by this cluster's clock.
	// +optional
	Timestamp *metav1.Time `json:"timestamp,omitempty"`
}

// AdvertisementStatus describes whether the broker has the advertisement. The agent sets it.
type AdvertisementStatus struct {
	// published is true when the broker accepted the last advertisement.
	// +optional
	Published bool `json:"published,omitempty"`

	// lastPublished is when the broker last accepted an advertisement. The agent updates it
	// only together with another field.
	// +optional
	LastPublished *metav1.Time `json:"lastPublished,omitempty"`

	// message is the broker's answer, or the error of the last attempt.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// agent has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// peerRights lists what the identities of peered clusters may write in the namespaces that
	// are offloaded to this cluster, and which slices they may create. Admission policies read
	// it. A key is one of: the user name that Liqo gave a slice; <cluster ID>/<slice> for the
	// slice itself; cluster.<cluster ID> for all other users of a cluster.
	// +optional
	PeerRights map[string]PeerRight `json:"peerRights,omitempty"`

	// conditions are Ready (the broker knows this cluster), Configured (the agent's
	// configuration file is in force), Priced (the prices on nodes are in force),
	// BrokerCompatible (the broker is at most one minor version newer or older),
	// CertificateValid (the agent's certificate has not expired), ReservationsCovered (the
	// capacity of reservations is free or used by them), LiqoReady (Liqo has a supported version and
	// enforces limits), Complete (the broker's decisions use the whole offer) and Guarded
	// (admission holds other clusters to their reservations).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PeerRight is what an identity of a peered cluster may write.
//
// +kubebuilder:validation:Enum=Write;Delete;None
type PeerRight string

const (
	// PeerRightWrite allows all writes, while the reservation lasts.
	PeerRightWrite PeerRight = "Write"
	// PeerRightDelete allows deletion, from the end of the reservation until its objects are
	// gone.
	PeerRightDelete PeerRight = "Delete"
	// PeerRightNone allows nothing. It applies to every other identity.
	PeerRightNone PeerRight = "None"
)

// Advertisement shows what this cluster offers to other clusters. The agent creates and updates
// it; the operator sets only spec.cost.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=adv,categories={broker,liqo}
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Published",type=boolean,JSONPath=`.status.published`
// +kubebuilder:printcolumn:name="CPU free",type=string,JSONPath=`.spec.resources.available.cpu`
// +kubebuilder:printcolumn:name="Memory free",type=string,JSONPath=`.spec.resources.available.memory`
// +kubebuilder:printcolumn:name="Pods pending",type=string,JSONPath=`.spec.pending.pods`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Advertisement struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes what the cluster offers.
	// +required
	Spec AdvertisementSpec `json:"spec"`

	// status describes whether the broker has the advertisement.
	// +optional
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status AdvertisementStatus `json:"status,omitempty"`
}

// AdvertisementList is a list of Advertisements.
//
// +kubebuilder:object:root=true
type AdvertisementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Advertisement `json:"items"`
}
