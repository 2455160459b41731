package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Constraints narrow down which clusters may provide. What is left out does not
// restrict. A later provider, after the first was lost, has to meet them too.
type Constraints struct {
	// regions are those that the provider may be in.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Regions []string `json:"regions,omitempty"`

	// zones are those that the provider may be in.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Zones []string `json:"zones,omitempty"`

	// clusterSelector matches the labels that clusters advertise.
	// +optional
	ClusterSelector *ClusterSelector `json:"clusterSelector,omitempty"`

	// includeClusters are the only clusters wanted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=40
	IncludeClusters []string `json:"includeClusters,omitempty"`

	// excludeClusters are not wanted.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=40
	ExcludeClusters []string `json:"excludeClusters,omitempty"`

	// nodeSelector says what a resource means: only what is free on the provider's
	// nodes with all of these labels counts, for example nvidia.com/gpu.product. A
	// cluster shows those labels of its nodes that its agent's --node-labels names.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// affinity names groups of the same requester's reservations: while any of them
	// stand, only their providers will do.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Affinity []string `json:"affinity,omitempty"`

	// antiAffinity names groups of the same requester's reservations whose providers
	// are left out. To spread reservations, give them one group and name it here.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	AntiAffinity []string `json:"antiAffinity,omitempty"`

	// dataLocality names a data set that the provider must have: it advertises the
	// label data.broker.fluidos.eu/<name>.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	DataLocality string `json:"dataLocality,omitempty"`

	// maxPrice is the most that all of the request may cost for an hour. Clusters
	// without a price, or priced in a currency for which
	// BrokerConfig.spec.exchangeRates has no rate, are left out.
	// +optional
	MaxPrice *Money `json:"maxPrice,omitempty"`

	// requiredClaims are what the provider must claim of itself, by name: a value, a
	// decimal number after >= or <=, or "" for any value.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	RequiredClaims map[string]LabelValue `json:"requiredClaims,omitempty"`
}

// LabelValue is the value of a label or of a claim.
//
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// ClusterSelector matches labels as label selectors of Kubernetes do.
type ClusterSelector struct {
	// matchLabels are labels that must be there with these values.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements that must all be met.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []LabelExpression `json:"matchExpressions,omitempty"`
}

// LabelExpression relates one label to values.
//
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",message="In and NotIn need values, Exists and DoesNotExist have none"
type LabelExpression struct {
	// key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// operator is In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator"`

	// values of In and NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values,omitempty"`
}

// Money is an amount of a currency.
type Money struct {
	// amount as a decimal number, for example "1.50".
	// +required
	Amount Price `json:"amount"`

	// currency is an ISO 4217 code.
	// +required
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z]{3}$')",message="currency must be an ISO 4217 code, for example EUR"
	Currency string `json:"currency"`
}

// PodShape is so many pods of one size.
type PodShape struct {
	// count of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Count int32 `json:"count"`

	// resources that each of them requests.
	// +required
	Resources PodResources `json:"resources"`
}

// PodResources is what one pod requests, by Kubernetes resource name.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=10
type PodResources map[corev1.ResourceName]resource.Quantity

// DataVolume is data that the workload works on. It is stored at the provider for as
// long as the reservation lasts, and leaves the provider's region once where it came
// from another one; both have a price, see Cost.
type DataVolume struct {
	// volume of the data, for example 500Gi.
	// +required
	// +kubebuilder:validation:XValidation:rule="!string(self).startsWith('-')",message="volume cannot be negative"
	Volume resource.Quantity `json:"volume"`

	// region that the data is in now. Without it the data has no way to go.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
}

// Terms are what a request asks of its provider beside amounts.
type Terms struct {
	// group by which affinity and antiAffinity of the same requester's other
	// reservations know this one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="group must be made of letters, digits, '-', '_' and '.'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="only duration and release can be changed: delete it and create another"
	Group string `json:"group,omitempty"`

	// constraints on the provider.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="only duration and release can be changed: delete it and create another"
	Constraints *Constraints `json:"constraints,omitempty"`

	// podShapes are pods that must fit on the provider's nodes beside each other. What
	// they need in all is reserved where no more is asked for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="only duration and release can be changed: delete it and create another"
	PodShapes []PodShape `json:"podShapes,omitempty"`

	// data that the workload works on, for its price.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="only duration and release can be changed: delete it and create another"
	Data *DataVolume `json:"data,omitempty"`
}
