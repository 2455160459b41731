package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceMetrics are the amounts of a cluster's resources: how much there is, and how much of it
// is in use, reserved or free. Keys are Kubernetes resource names (cpu, memory, pods,
// ephemeral-storage and any extended resource), values are Kubernetes quantities.
//
// In a ClusterAdvertisement, available = allocatable × factor − allocated − reserved for every key,
// but at least zero. The factor is the one in status.overSubscription, or else 1.
type ResourceMetrics struct {
	// capacity is the total of the cluster's nodes.
	// +required
	Capacity corev1.ResourceList `json:"capacity"`

	// allocatable is what pods can use: capacity minus the amounts that nodes keep for their own
	// daemons. It defaults to capacity.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`

	// allocated is the sum of the requests of the cluster's own pods. Pods that run for a
	// reservation count in reserved instead.
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`

	// reserved is what is held for reservations. In a ClusterAdvertisement the broker sets it, and
	// overwrites any other value.
	// +optional
	Reserved corev1.ResourceList `json:"reserved,omitempty"`

	// available is what can still be reserved. In a ClusterAdvertisement the broker sets it, and
	// overwrites any other value.
	// +optional
	Available corev1.ResourceList `json:"available,omitempty"`
}

// Ratio is a decimal number from 1 to 10 with at most two decimals, for example 1.5. It is written
// as a string.
//
// +kubebuilder:validation:MaxLength=5
// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9]([.][0-9]{1,2})?|10([.]0{1,2})?)$')",message="a ratio must be a decimal number from 1 to 10 with at most two places, for example \"1.5\""
type Ratio string

// OverSubscription maps resource names to the factor by which a resource may be over-committed.
// Extended resources, such as GPUs, cannot be over-subscribed.
//
// +kubebuilder:validation:MaxProperties=4
// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage', 'pods'])",message="only cpu, memory, ephemeral-storage and pods can be over-subscribed"
type OverSubscription map[corev1.ResourceName]Ratio

// Cost lists the prices of a cluster's capacity as decimal strings.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpuPerHour)",message="cpuPerHour is not a field: set cpuCost to the price of one core for one hour",fieldPath=".cpuPerHour"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryPerHour)",message="memoryPerHour is not a field: set memoryCost to the price of one GiB for one hour",fieldPath=".memoryPerHour"
type Cost struct {
	// cpuCost is the price of one core for one hour.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,9}([.][0-9]{1,9})?$')",message="cpuCost must be a decimal number with at most nine digits before and after the point, for example 0.05"
	// +kubebuilder:validation:MaxLength=19
	CPUCost string `json:"cpuCost,omitempty"`

	// memoryCost is the price of one GiB of memory for one hour.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,9}([.][0-9]{1,9})?$')",message="memoryCost must be a decimal number with at most nine digits before and after the point, for example 0.05"
	// +kubebuilder:validation:MaxLength=19
	MemoryCost string `json:"memoryCost,omitempty"`

	// resourceCosts is the price of one unit of an extended resource for one hour, by resource
	// name, for example nvidia.com/gpu.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	ResourceCosts map[corev1.ResourceName]Price `json:"resourceCosts,omitempty"`

	// storageCost is the price of storing one GiB of a request's data for one hour.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,9}([.][0-9]{1,9})?$')",message="storageCost must be a decimal number with at most nine digits before and after the point, for example 0.0001"
	// +kubebuilder:validation:MaxLength=19
	StorageCost string `json:"storageCost,omitempty"`

	// egressCost is the price of moving one GiB of data out of the cluster's region.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,9}([.][0-9]{1,9})?$')",message="egressCost must be a decimal number with at most nine digits before and after the point, for example 0.09"
	// +kubebuilder:validation:MaxLength=19
	EgressCost string `json:"egressCost,omitempty"`

	// currency is the ISO 4217 code of the currency of all these prices, for example EUR.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z]{3}$')",message="currency must be an ISO 4217 code, for example EUR"
	// +kubebuilder:validation:MaxLength=63
	Currency string `json:"currency,omitempty"`

	// cpuPerHour must not be set. The API server refuses it with a message that names cpuCost, the
	// correct field.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CPUPerHour *string `json:"cpuPerHour,omitempty"`

	// memoryPerHour must not be set. The API server refuses it with a message that names
	// memoryCost, the correct field.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	MemoryPerHour *string `json:"memoryPerHour,omitempty"`
}

// Price is a non-negative decimal number as a string, for example "0.95".
//
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,9}([.][0-9]{1,9})?$')",message="a price must be a decimal number with at most nine digits before and after the point, for example 0.05"
// +kubebuilder:validation:MaxLength=19
type Price string

// Topology is the location of a cluster.
type Topology struct {
	// region is the value of the label topology.kubernetes.io/region of the cluster's nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^\x00-\x1f\x7f-\x9f]*$')`,message="region must not contain control characters"
	Region string `json:"region,omitempty"`

	// zone is the value of the label topology.kubernetes.io/zone of the cluster's nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^\x00-\x1f\x7f-\x9f]*$')`,message="zone must not contain control characters"
	Zone string `json:"zone,omitempty"`
}

// ElasticOffer describes nodes that a cluster can create.
type ElasticOffer struct {
	// resources is how much the cluster lends of these nodes in total.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// nodes describes the nodes that can still be created. A node that exists is no longer one of
	// them. free is what pods can request on a new node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Nodes []NodeShape `json:"nodes,omitempty"`

	// readyWithin is how long after a grant the new nodes are Ready at the latest.
	// +required
	ReadyWithin metav1.Duration `json:"readyWithin"`
}

// NodeShape describes a group of nodes with the same free amounts, published labels and taints. It
// shows whether a pod fits on a node, which the sums over a cluster do not show.
type NodeShape struct {
	// count is the number of nodes with this shape.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`

	// free is what pods can still request on each of these nodes.
	// +required
	Free corev1.ResourceList `json:"free"`

	// nodeLabels are labels of these nodes. The agent's flag --node-labels names the labels that a
	// cluster publishes.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeLabels map[string]LabelValue `json:"nodeLabels,omitempty"`

	// taints are the taints of these nodes. The nodes count only for requests that tolerate all of
	// them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Taints []Taint `json:"taints,omitempty"`
}

// Taint is a taint of a node. Pods that do not tolerate it do not run there.
type Taint struct {
	// key is the key of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// value is the value of the taint.
	// +optional
	Value LabelValue `json:"value,omitempty"`

	// effect is NoSchedule or NoExecute.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;NoExecute
	Effect string `json:"effect"`
}
