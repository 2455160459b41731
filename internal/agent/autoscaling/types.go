package autoscaling

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ClassName is the class of the ProvisioningRequests that the agent serves. It never touches those of other classes.
const ClassName = "reserve.broker.fluidos.eu"

// GroupVersion of ProvisioningRequest.
var GroupVersion = schema.GroupVersion{Group: "autoscaling.x-k8s.io", Version: "v1"}

// Types of the conditions of a ProvisioningRequest.
const (
	// Accepted is true once a ResourceRequest was created.
	Accepted = "Accepted"
	// Provisioned is true once pods can use the borrowed node. It stays true.
	Provisioned = "Provisioned"
	// Failed is true if no capacity was provisioned, or if it was lost and another request may bring it back.
	Failed = "Failed"
	// CapacityRevoked is true once provisioned capacity is no longer there.
	CapacityRevoked = "CapacityRevoked"
	// BookingExpired is true once the duration of provisioned capacity has ended.
	BookingExpired = "BookingExpired"
)

// Keys of status.provisioningClassDetails. Each comment describes the value under the key.
const (
	// DetailRequestName is the value of node label broker.fluidos.eu/request.
	DetailRequestName = "RequestName"
	// DetailRequestNamespace is the value of node label broker.fluidos.eu/request-namespace.
	DetailRequestNamespace = "RequestNamespace"
	// DetailReservationName is the broker's name of the reservation.
	DetailReservationName = "ReservationName"
	// DetailClusterID is the ID of the cluster that was the provider when the capacity was provisioned.
	DetailClusterID = "ClusterID"
)

// ProvisioningRequest asks for the capacity that groups of pods need.
//
// +kubebuilder:object:root=true
type ProvisioningRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ProvisioningRequestSpec   `json:"spec"`
	Status ProvisioningRequestStatus `json:"status,omitempty"`
}

// ProvisioningRequestList is a list of ProvisioningRequests.
//
// +kubebuilder:object:root=true
type ProvisioningRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []ProvisioningRequest `json:"items"`
}

// ProvisioningRequestSpec describes pods and how to provision capacity for them. It is immutable.
type ProvisioningRequestSpec struct {
	PodSets               []PodSet             `json:"podSets"`
	ProvisioningClassName string               `json:"provisioningClassName"`
	Parameters            map[string]Parameter `json:"parameters,omitempty"`
}

// Parameter is the value of a parameter, at most 255 characters.
type Parameter string

// PodSet is a number of pods of one PodTemplate.
type PodSet struct {
	PodTemplateRef Reference `json:"podTemplateRef"`
	Count          int32     `json:"count"`
}

// Reference names an object in the same namespace.
type Reference struct {
	Name string `json:"name,omitempty"`
}

// ProvisioningRequestStatus shows how far the request is.
type ProvisioningRequestStatus struct {
	Conditions               []metav1.Condition `json:"conditions,omitempty"`
	ProvisioningClassDetails map[string]Detail  `json:"provisioningClassDetails,omitempty"`
}

// Detail is a value of status.provisioningClassDetails, at most 32768 characters.
type Detail string

// AddToScheme adds the types to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ProvisioningRequest{}, &ProvisioningRequestList{})
	scheme.AddKnownTypes(BufferGroupVersion, &CapacityBuffer{}, &CapacityBufferList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	metav1.AddToGroupVersion(scheme, BufferGroupVersion)
	return nil
}
