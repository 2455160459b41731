package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Constraints restrict which clusters may provide the capacity, also when the reservation moves to
// another provider. A field that is not set does not restrict anything.
type Constraints struct {
	// regions lists the regions in which the provider may be.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="a region is made of letters, digits, '-', '_' and '.', for example eu-south"
	Regions []string `json:"regions,omitempty"`

	// zones lists the zones in which the provider may be.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="a zone is made of letters, digits, '-', '_' and '.', for example eu-south-1a"
	Zones []string `json:"zones,omitempty"`

	// clusterSelector selects the clusters that may provide the capacity by their advertised
	// labels.
	// +optional
	ClusterSelector *ClusterSelector `json:"clusterSelector,omitempty"`

	// includeClusters lists the only clusters that may provide the capacity.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=40
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a cluster ID is a DNS label: lower-case letters, digits and '-' only"
	IncludeClusters []string `json:"includeClusters,omitempty"`

	// excludeClusters lists clusters that may not provide the capacity.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=40
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a cluster ID is a DNS label: lower-case letters, digits and '-' only"
	ExcludeClusters []string `json:"excludeClusters,omitempty"`

	// nodeSelector lists labels that nodes of the provider must have, for example
	// nvidia.com/gpu.product. Only the free capacity of nodes with all these labels counts, and the
	// pods of the request run only there. A cluster publishes only the node labels that its agent's
	// flag --node-labels names.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// tolerations list the taints that the pods of the request tolerate. Nodes with any other taint
	// do not count. The broker knows only the tainted nodes that the provider's operator has
	// offered. At the provider, the pods get these tolerations.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// affinity lists groups of other ResourceRequests in the same namespace, or of other
	// Reservations with the same requester. While members of these groups have capacity, this
	// request can only go to one of their providers.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="a group is made of letters, digits, '-', '_' and '.', for example web"
	Affinity []string `json:"affinity,omitempty"`

	// antiAffinity lists groups in the same way as affinity. This request cannot go to a provider
	// of a member of these groups. To spread requests over providers, give them all one group and
	// list it here.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="a group is made of letters, digits, '-', '_' and '.', for example web"
	AntiAffinity []string `json:"antiAffinity,omitempty"`

	// dataLocality is the name of a data set that the provider must have. A cluster has it if it
	// advertises the label data.broker.fluidos.eu/<name>.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DataLocality string `json:"dataLocality,omitempty"`

	// maxPrice is the most that the whole request may cost per hour. If it is set, the broker
	// rejects clusters that have no price for a requested resource, and clusters whose currency has no rate
	// in BrokerConfig.spec.exchangeRates.
	// +optional
	MaxPrice *Money `json:"maxPrice,omitempty"`

	// requiredClaims are the claims that the provider must advertise, by name. The value is the
	// exact value required, or >= or <= followed by a decimal number, or "" if any value will do.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('^([^<>=!~].*|[<>]= *[0-9]+([.][0-9]+)?)?$'))",message="a claim is required with a value, with >= or <= and a decimal number, for example >=99.9, or with \"\" for any value"
	RequiredClaims map[string]LabelValue `json:"requiredClaims,omitempty"`
}

// Toleration matches taints of a node, like a toleration of a pod.
//
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || size(self.value) == 0",message="operator Exists has no value: leave it out, or use Equal"
type Toleration struct {
	// key is the key of the taint. Taints that Kubernetes, Liqo, this product or autoscalers set
	// cannot be tolerated.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([^/]*[.])?(kubernetes[.]io|k8s[.]io|liqo[.]io|fluidos[.]eu|karpenter[.]sh)/|^(ToBeDeletedByClusterAutoscaler|DeletionCandidateOfClusterAutoscaler|CriticalAddonsOnly)$')",message="key belongs to Kubernetes, Liqo, this product or an autoscaler, whose taints are never offered: use a key of your own"
	Key string `json:"key"`

	// operator is Equal (the default) or Exists, which matches every value.
	// +optional
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator string `json:"operator,omitempty"`

	// value is the value of the taint.
	// +optional
	Value LabelValue `json:"value,omitempty"`

	// effect is NoSchedule or NoExecute. If empty, the toleration matches both.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;NoExecute
	Effect string `json:"effect,omitempty"`
}

// LabelValue is the value of a label or of a claim.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// ClusterSelector selects clusters by label, like a Kubernetes label selector.
type ClusterSelector struct {
	// matchLabels are labels that a cluster must have, with these values.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements on labels. A cluster must meet all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []LabelExpression `json:"matchExpressions,omitempty"`
}

// LabelExpression is a requirement on one label, like an entry of matchExpressions in Kubernetes.
//
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",message="In and NotIn need values, Exists and DoesNotExist have none"
type LabelExpression struct {
	// key is the key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// operator is In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator"`

	// values are what In and NotIn compare the label with. Exists and DoesNotExist take no values.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values,omitempty"`
}

// Money is an amount in a currency.
type Money struct {
	// amount is a decimal number, for example "1.50".
	// +required
	Amount Price `json:"amount"`

	// currency is the ISO 4217 code of the amount.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z]{3}$')",message="currency must be an ISO 4217 code, for example EUR"
	Currency string `json:"currency"`
}

// PodShape describes a number of pods that all request the same amounts.
type PodShape struct {
	// count is the number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Count int32 `json:"count"`

	// resources are the requests of each of these pods.
	// +required
	Resources PodResources `json:"resources"`
}

// PodResources maps resource names to the requests of one pod.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=10
// +kubebuilder:validation:XValidation:rule="!('memory' in self) || !string(self['memory']).endsWith('B')",message="memory is a number of bytes with a unit such as Mi or Gi (not MB or GB), for example 256Mi"
type PodResources map[corev1.ResourceName]resource.Quantity

// DataVolume describes the data of the workload. It makes two costs part of the price of a
// request. The provider stores the data while the reservation lasts (Cost.storageCost). If the
// data is in another region, it is moved out of the provider's region once (Cost.egressCost).
type DataVolume struct {
	// volume is the size of the data, for example 500Gi.
	// +required
	// +kubebuilder:validation:XValidation:rule="size(string(self)) <= 64 && !string(self).matches('[eE].?[0-9]{3}') && isQuantity(string(self)) && !string(self).startsWith('-')",message="volume must be a number of bytes with a unit, for example 500Gi (not GB)"
	Volume resource.Quantity `json:"volume"`

	// region is the region where the data is now. If it is not set, the price includes no cost of
	// a transfer.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
}

// Requirements are what a request demands of its provider, besides the amounts.
type Requirements struct {
	// group is a name by which other requests refer to this one in affinity and antiAffinity. Only
	// ResourceRequests in the same namespace, or Reservations with the same requester, can refer
	// to it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="group must be made of letters, digits, '-', '_' and '.'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="only duration and release can be changed: delete it and create another"
	Group string `json:"group,omitempty"`

	// constraints restrict the choice of provider.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="only duration and release can be changed: delete it and create another"
	Constraints *Constraints `json:"constraints,omitempty"`

	// podShapes are pods that must all fit on the provider's nodes at the same time. The sum of
	// their requests is reserved. If the request itself asks for a larger amount of a resource,
	// the larger amount is reserved.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="only duration and release can be changed: delete it and create another"
	PodShapes []PodShape `json:"podShapes,omitempty"`

	// data is the data of the workload. It affects the price of the request.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="only duration and release can be changed: delete it and create another"
	Data *DataVolume `json:"data,omitempty"`
}
