package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// LeavingUntilAnnotation of an Advertisement says that the agent is being uninstalled. Its value is
// the instant (RFC 3339) from which on the agent ignores the annotation, in case the uninstallation
// was abandoned. The command agent uninstall sets the annotation, and removes it if the agent is
// not uninstalled after all.
const LeavingUntilAnnotation = "broker.fluidos.eu/leaving-until"

// AdvertisementSpec describes what this cluster offers. The agent computes it from nodes, pods
// and its configuration. The operator may set cost, labels and claims here if the agent's
// configuration file does not.
type AdvertisementSpec struct {
	// clusterID is the ID of this cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// clusterName is a display name. It defaults to clusterID.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName,omitempty"`

	// endpointURL is the https address of this cluster's API server, as other clusters reach
	// it.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	EndpointURL string `json:"endpointURL,omitempty"`

	// topology is the region and zone of the cluster, from the agent's configuration.
	// +optional
	Topology *brokerv1alpha1.Topology `json:"topology,omitempty"`

	// resources are the amounts of the cluster's resources. In reserved, each placement that this
	// cluster provides counts with its reserved amount, or with what its pods request if that is
	// more.
	// +required
	Resources brokerv1alpha1.ResourceMetrics `json:"resources"`

	// withheld is capacity that the agent's configuration keeps for this cluster. It is part of
	// resources.allocated, although no pod requests it.
	// +optional
	Withheld corev1.ResourceList `json:"withheld,omitempty"`

	// pending is the sum of the requests of this cluster's own pods for which the scheduler finds
	// no node. Its key pods is the number of these pods. It is empty if there are none. No other
	// field includes these amounts. The broker shows them, but does not use them in decisions. The
	// agent updates the field when an amount has changed by more than 2 % of the allocatable or of
	// the pending amount, whichever is larger. When the regular advertisement is due, a change of
	// more than 2 % of the pending amount suffices. The broker learns of every change with the
	// regular advertisement. At most 32 resources are listed. If there are more, those that the
	// cluster has take precedence.
	// +optional
	Pending corev1.ResourceList `json:"pending,omitempty"`

	// pendingSince is when the scheduler first found no node for the pod in pending that has waited
	// longest. It is absent if pending is empty.
	// +optional
	PendingSince *metav1.Time `json:"pendingSince,omitempty"`

	// overSubscription is the factor by which this cluster offers to over-commit each resource. It
	// is the lowest factor that suffices for the capacity that is lent, and never more than the
	// factor in the agent's configuration. The amounts in resources are not multiplied by it.
	// +optional
	OverSubscription brokerv1alpha1.OverSubscription `json:"overSubscription,omitempty"`

	// nodeShapes describes the cluster's nodes, grouped by free capacity.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NodeShapes []brokerv1alpha1.NodeShape `json:"nodeShapes,omitempty"`

	// elastic describes nodes that the cluster can create for a placement that does not fit on its
	// existing nodes. The agent sets it from its configuration file.
	// +optional
	Elastic *brokerv1alpha1.ElasticOffer `json:"elastic,omitempty"`

	// cost is the price of the capacity. The agent sets it from its configuration file. If the file
	// contains no prices, the operator sets cost here, and the agent leaves it unchanged.
	// +optional
	Cost *brokerv1alpha1.Cost `json:"cost,omitempty"`

	// labels are the labels of the cluster, from the agent's configuration file or set here by the
	// operator. The clusterSelector of a request matches against them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]brokerv1alpha1.LabelValue `json:"labels,omitempty"`

	// claims are statements of the cluster about itself, by name, for example availability: "99.9"
	// or gdpr: "true". They come from the agent's configuration file or are set here by the
	// operator. A request can require them. The broker does not verify them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Claims map[string]brokerv1alpha1.LabelValue `json:"claims,omitempty"`

	// timestamp is when the agent measured the amounts, by this cluster's clock.
	// +optional
	Timestamp *metav1.Time `json:"timestamp,omitempty"`
}

// JournalAnchor is a position in the broker's journal with the hash of the journal up to that
// position. It lets an audit detect that the journal was changed later.
type JournalAnchor struct {
	// journal is the random ID of the journal.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Journal string `json:"journal"`

	// position is the number of the last record that the hash covers.
	// +required
	Position int64 `json:"position"`

	// hash is the hash of all records up to the position, SHA-256 in hexadecimal.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash"`

	// at is when the broker sent the anchor.
	// +required
	At metav1.Time `json:"at"`
}

// AdvertisementStatus describes whether the broker has the advertisement. The agent sets it.
type AdvertisementStatus struct {
	// published is true when the broker has accepted the latest advertisement that the agent sent.
	// +optional
	// +kubebuilder:default=false
	Published bool `json:"published,omitempty"`

	// lastPublished is when the broker last accepted an advertisement. To save writes, the agent
	// updates it only together with another field.
	// +optional
	LastPublished *metav1.Time `json:"lastPublished,omitempty"`

	// message is the message of the condition Ready: whether the broker has the offer, or why the
	// last attempt to send it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// agent has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// anchors are positions in the broker's journal that the broker has sent, newest first. An audit
	// compares the journal with them. The newest one is at most about ten minutes older than the
	// latest advertisement; older ones are at least three hours apart and kept for about a day.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=12
	Anchors []JournalAnchor `json:"anchors,omitempty"`

	// conditions are Ready (the broker has this cluster's offer), Configured (the agent's
	// configuration file is in force), Priced (the prices on nodes are in force), BrokerCompatible
	// (the broker is at most one minor version newer or older), CertificateValid (the agent's
	// certificate has not expired), ReservationsCovered (reserved capacity is free, or used by its
	// reservations), LiqoReady (Liqo has a supported version and enforces limits), Complete (the
	// broker considers the whole offer), Guarded (admission limits other clusters to their
	// reservations), PeeringSkipped (the agent never peers) and Leaving (the agent is being
	// uninstalled).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Advertisement shows what this cluster offers to other clusters. The agent creates and updates
// it. The operator may set spec.cost, spec.labels and spec.claims, unless the agent's
// configuration file does.
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

	// status says whether the broker has accepted the advertisement.
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
