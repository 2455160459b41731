package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// AdvertisementSpec is what this cluster offers, as the agent last counted it.
type AdvertisementSpec struct {
	// clusterID of this cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// clusterName is a name for people.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName,omitempty"`

	// endpointURL is the https address of this cluster's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	EndpointURL string `json:"endpointURL,omitempty"`

	// topology says where the cluster is.
	// +optional
	Topology *brokerv1alpha1.Topology `json:"topology,omitempty"`

	// resources of the cluster. reserved is the sum over enforced
	// ProviderInstructions of the larger of what was reserved and what is used.
	// +required
	Resources brokerv1alpha1.ResourceMetrics `json:"resources"`

	// withheld is what of resources.allocated no pod requests: the agent's configuration
	// keeps it back, so that it is not lent.
	// +optional
	Withheld corev1.ResourceList `json:"withheld,omitempty"`

	// pending is what this cluster's own pods request that the scheduler finds no node
	// for, and as pods how many those are; empty where there are none. It is part of no
	// other figure, and is not told to the broker. It is written at once where it moved by
	// more than a fiftieth of what is allocatable, and with the next advertisement where it
	// moved by a fiftieth of itself. Of more than 32 resources those are shown first that
	// the cluster has.
	// +optional
	Pending corev1.ResourceList `json:"pending,omitempty"`

	// overSubscription is how many times its resources this cluster offers to promise: no
	// more than it takes for what is lent, of what the agent's flags and configuration
	// allow. The amounts in resources are the true ones.
	// +optional
	OverSubscription brokerv1alpha1.OverSubscription `json:"overSubscription,omitempty"`

	// nodeShapes is a histogram of what is free per node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NodeShapes []brokerv1alpha1.NodeShape `json:"nodeShapes,omitempty"`

	// cost is the price of the capacity. It is kept from the Advertisement that
	// stands in the cluster: set it there.
	// +optional
	Cost *brokerv1alpha1.Cost `json:"cost,omitempty"`

	// labels of the cluster, which clusterSelector of a request matches.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]brokerv1alpha1.LabelValue `json:"labels,omitempty"`

	// claims that the cluster makes of itself, by name, for example availability:
	// "99.9" or gdpr: "true". A request can require them; nobody checks them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Claims map[string]brokerv1alpha1.LabelValue `json:"claims,omitempty"`

	// timestamp is when the figures were counted.
	// +optional
	Timestamp *metav1.Time `json:"timestamp,omitempty"`
}

// AdvertisementStatus says whether the broker has the advertisement.
type AdvertisementStatus struct {
	// published is true when the broker took the last advertisement.
	// +optional
	Published bool `json:"published,omitempty"`

	// lastPublished is when the broker last took one, written when something else
	// changes too.
	// +optional
	LastPublished *metav1.Time `json:"lastPublished,omitempty"`

	// message is the broker's answer or the error.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// observedGeneration is the generation that this status speaks of; 0 means
	// not seen yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// peerRights says what the identities of peered clusters may write in the
	// namespaces that are offloaded here, and which slices they may make: admission
	// policies read it. A key is the user that Liqo made of a slice, <ID>/<slice> for the
	// slice itself, or cluster.<ID> for all other users of a cluster.
	// +optional
	PeerRights map[string]PeerRight `json:"peerRights,omitempty"`

	// conditions are Ready, true when the broker knows this cluster,
	// Configured, true while what the agent's configuration file says is in force,
	// Priced, true while the prices that nodes name are in force,
	// BrokerCompatible, true while the broker is at most one minor version newer or older,
	// CertificateValid, true while the agent's certificate has not expired,
	// ReservationsCovered, true while what is kept for reservations is free or used by
	// them, LiqoReady, true while Liqo here is of a version that the agent works with
	// and enforces limits, Complete, true while the broker's decisions know all of the offer,
	// and Guarded, true while admission keeps other clusters to what they reserved.
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
	// PeerRightWrite stands while the reservation does.
	PeerRightWrite PeerRight = "Write"
	// PeerRightDelete stands from the end of the reservation until nothing of it is left.
	PeerRightDelete PeerRight = "Delete"
	// PeerRightNone is for everybody else.
	PeerRightNone PeerRight = "None"
)

// Advertisement shows what this cluster offers to others. The agent writes it;
// only spec.cost is the operator's.
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

	// spec is what the cluster offers.
	// +required
	Spec AdvertisementSpec `json:"spec"`

	// status says whether the broker has it.
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
