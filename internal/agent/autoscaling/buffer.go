package autoscaling

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Strategy is the provisioning strategy of the CapacityBuffers that the agent serves. It never touches those of other
// strategies.
const Strategy = "reserve.broker.fluidos.eu/borrowed"

// ParameterPrefix, followed by the name of a parameter, is the key of an annotation on a CapacityBuffer. The parameters
// are those of a ProvisioningRequest.
const ParameterPrefix = "reserve.broker.fluidos.eu/"

// BufferGroupVersion of CapacityBuffer.
var BufferGroupVersion = schema.GroupVersion{Group: GroupVersion.Group, Version: "v1beta1"}

// BufferReady is the condition of a CapacityBuffer that is True while its virtual node has the free room that spec asks
// for.
const BufferReady = "Ready"

// CapacityBuffer keeps room free for pods to come.
//
// +kubebuilder:object:root=true
type CapacityBuffer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CapacityBufferSpec   `json:"spec"`
	Status CapacityBufferStatus `json:"status,omitempty"`
}

// CapacityBufferList is a list of CapacityBuffers.
//
// +kubebuilder:object:root=true
type CapacityBufferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []CapacityBuffer `json:"items"`
}

// CapacityBufferSpec says for how many pods of which template room is kept free.
type CapacityBufferSpec struct {
	ProvisioningStrategy string     `json:"provisioningStrategy,omitempty"`
	PodTemplateRef       *Reference `json:"podTemplateRef,omitempty"`
	// ScalableRef names a workload instead of a PodTemplate, and Percentage is a share of its replicas.
	ScalableRef *ScalableReference `json:"scalableRef,omitempty"`
	Percentage  *int32             `json:"percentage,omitempty"`
	// Replicas is the number of pods for which room is kept, if it is larger than that share; without both, as many as
	// Limits allow.
	Replicas *int32 `json:"replicas,omitempty"`
	// Limits are the largest amounts that used and free room together may have.
	Limits map[corev1.ResourceName]resource.Quantity `json:"limits,omitempty"`
}

// ScalableReference names a workload of the namespace.
type ScalableReference struct {
	APIGroup string `json:"apiGroup,omitempty"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
}

// CapacityBufferStatus shows the room that is free.
type CapacityBufferStatus struct {
	PodTemplateRef        *Reference `json:"podTemplateRef,omitempty"`
	PodTemplateGeneration *int64     `json:"podTemplateGeneration,omitempty"`
	// Replicas is for how many pods room is free now.
	Replicas             *int32             `json:"replicas,omitempty"`
	ProvisioningStrategy string             `json:"provisioningStrategy,omitempty"`
	Conditions           []metav1.Condition `json:"conditions,omitempty"`
}
