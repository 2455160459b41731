package v1alpha1

import (
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// ResourceRequestPhase summarizes the progress of a request for people. Programs should read
// conditions.
//
// +kubebuilder:validation:Enum=Pending;Queued;Reserved;Active;Releasing;Released;Failed
type ResourceRequestPhase string

// Phases of a ResourceRequest.
const (
	RequestPending   ResourceRequestPhase = "Pending"
	RequestQueued    ResourceRequestPhase = "Queued"
	RequestReserved  ResourceRequestPhase = "Reserved"
	RequestActive    ResourceRequestPhase = "Active"
	RequestReleasing ResourceRequestPhase = "Releasing"
	RequestReleased  ResourceRequestPhase = "Released"
	RequestFailed    ResourceRequestPhase = "Failed"
)

// ResourceRequestSpec describes the capacity to reserve in another cluster. Amounts (cpu,
// memory, resources), duration and release can be changed. To change anything else, create
// another request.
//
// +kubebuilder:validation:XValidation:rule="has(self.priority) == has(oldSelf.priority) && has(self.namespaces) == has(oldSelf.namespaces) && has(self.queuePolicy) == has(oldSelf.queuePolicy) && has(self.queueTimeout) == has(oldSelf.queueTimeout) && has(self.healing) == has(oldSelf.healing)",message="of a ResourceRequest only cpu, memory, resources, duration and release can be changed: delete it and create another"
// +kubebuilder:validation:XValidation:rule="has(self.group) == has(oldSelf.group) && has(self.constraints) == has(oldSelf.constraints) && has(self.podShapes) == has(oldSelf.podShapes) && has(self.data) == has(oldSelf.data) && has(self.offloading) == has(oldSelf.offloading)",message="of a ResourceRequest only cpu, memory, resources, duration and release can be changed: delete it and create another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.release) || !oldSelf.release || (has(self.release) && self.release)",message="a ResourceRequest that was released cannot be taken back: create another"
// +kubebuilder:validation:XValidation:rule="!has(self.queueTimeout) || has(self.queuePolicy) && self.queuePolicy == 'Queue'",fieldPath=".queueTimeout",message="queueTimeout has no effect without queuePolicy: Queue: set that too, or leave queueTimeout out"
// +kubebuilder:validation:XValidation:rule="has(self.podShapes) || has(self.cpu) && has(self.memory)",message="set both cpu and memory, for example cpu: 500m and memory: 256Mi, or podShapes: a virtual node needs both"
type ResourceRequestSpec struct {
	// cpu is the amount of CPU in cores, for example "500m". cpu and memory are required, unless
	// podShapes name them: Liqo makes no virtual node Ready without both.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(string(self)) <= 64 && !string(self).matches('[eE].?[0-9]{3}') && isQuantity(string(self))",message="cpu must be a number of cores, for example 2, 0.5 or 500m"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[0-9]') || !string(self).startsWith('-') && string(self).matches('^[^eE]*[1-9]')",message="cpu must be above zero, for example 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the amount of memory, for example "256Mi".
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(string(self)) <= 64 && !string(self).matches('[eE].?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="memory must be at least 1Mi, written with a unit such as Mi or Gi (not MB or GB), for example 256Mi"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// resources are amounts of other resources, for example nvidia.com/gpu: "1" or pods: "20".
	// With cpu and memory there are at most ten, as in a Reservation.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self) <= 8",message="at most eight resources can be named beside cpu and memory"
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) && !('memory' in self)",message="cpu and memory have fields of their own: set spec.cpu and spec.memory"
	Resources brokerv1alpha1.RequestedResources `json:"resources,omitempty"`

	// priority orders competing requests; the highest comes first. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration and release can be changed: delete it and create another"
	Priority int32 `json:"priority,omitempty"`

	// duration is how long the capacity is held, from 1m to 87600h (ten years), counted from
	// status.reservedAt. Without it the capacity is held until this object is deleted or
	// released. A new duration must end in the future.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="duration must be at least 1m and at most 87600h, for example 2h30m, or left out"
	Duration *metav1.Duration `json:"duration,omitempty"`

	// queuePolicy says what happens when no cluster has room, now or after a placement ended
	// early: the request fails (Fail, the default) or waits for capacity (Queue).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration and release can be changed: delete it and create another"
	QueuePolicy brokerv1alpha1.QueuePolicy `json:"queuePolicy,omitempty"`

	// queueTimeout is how long the request may wait in the queue before it fails. It defaults
	// to BrokerConfig.spec.queue.defaultTimeout (1h).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="queueTimeout must be at least 1s and at most 87600h, for example 2h30m, or left out"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration and release can be changed: delete it and create another"
	QueueTimeout *metav1.Duration `json:"queueTimeout,omitempty"`

	// healing says what happens when the provider falls silent, or when the node is no longer Ready
	// for timeouts.notReady of the BrokerConfig. Migrate (the default) moves the
	// reservation to another cluster with room; the old virtual node stays until the new one is
	// Ready. Wait keeps the reservation where it is until the provider is back.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration and release can be changed: delete it and create another"
	Healing brokerv1alpha1.Healing `json:"healing,omitempty"`

	// namespaces are the namespaces whose pods may run on the virtual node. It defaults to the
	// request's own namespace; an empty list selects none. Any other namespace must carry the
	// label liqo.io/broker-offload=true.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a namespace is a DNS label: lower-case letters, digits and '-' only"
	// +kubebuilder:validation:items:XValidation:rule="!self.startsWith('kube-') && !self.startsWith('liqo-tenant-')",message="a system namespace cannot be offloaded: leave it out"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration and release can be changed: delete it and create another"
	Namespaces *[]string `json:"namespaces,omitempty"`

	// offloading says how these namespaces are offloaded. By default only pods that select the
	// virtual node run there, and namespaces get a new name at the provider.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration and release can be changed: delete it and create another"
	Offloading *Offloading `json:"offloading,omitempty"`

	// release ends the reservation and keeps this object, in phase Released, for reading. It
	// cannot be unset.
	// +optional
	Release bool `json:"release,omitempty"`

	brokerv1alpha1.Requirements `json:",inline"`
}

// ResourceRequestStatus holds the broker's answer and the progress of the peering. The agent
// sets it.
type ResourceRequestStatus struct {
	// phase summarizes the progress for people.
	// +optional
	Phase ResourceRequestPhase `json:"phase,omitempty"`

	// reason is the most important fact about the request in one word: that of the condition
	// that message describes.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// asked is true once the broker may know the current attempt of the request. The agent sets
	// it before its first call.
	// +optional
	Asked bool `json:"asked,omitempty"`

	// attempt counts how often the request was asked for anew: an edit of a request that has
	// Failed, or that was Released although spec.release is not set, begins the next attempt.
	// The first attempt is 0.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// granted is the capacity that is in force, whatever spec asks for. It is set while the
	// phase is Reserved or Active.
	// +optional
	Granted *brokerv1alpha1.Granted `json:"granted,omitempty"`

	// reservationName is the broker's name of the reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ReservationName string `json:"reservationName,omitempty"`

	// targetClusterID is the ID of the provider.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	TargetClusterID string `json:"targetClusterID,omitempty"`

	// targetClusterEndpoint is the address of the provider's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	TargetClusterEndpoint string `json:"targetClusterEndpoint,omitempty"`

	// nodeName is the name of the virtual node. Pin pods to it with the node selector
	// broker.fluidos.eu/request: <name of this object>.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	NodeName string `json:"nodeName,omitempty"`

	// nodeLabels are the labels of the virtual node by which pods can select it: its request and
	// reservation, and the provider's region and zone.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// reservedAt is when the broker reserved the capacity.
	// +optional
	ReservedAt *metav1.Time `json:"reservedAt,omitempty"`

	// expiresAt is when the reservation ends. It is empty while the agent renews the
	// reservation.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// message describes the progress in words, what threatens the capacity, and the next step if
	// the user has to act.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// queue is the request's place in the queue. It is set only while the request waits.
	// +optional
	Queue *brokerv1alpha1.QueuePlace `json:"queue,omitempty"`

	// candidates explain the decision: the ten best, winner first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Candidates []brokerv1alpha1.Candidate `json:"candidates,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// agent has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reserved, Peered, NodeReady and Offloading, and where they apply
	// NetworkConnected, Healthy, PeeringSkipped, ProviderReachable, Changed, Preempted, Recalled,
	// WithinGrant, Ending and Drained.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IdempotencyKey returns the key under which the broker knows the current attempt of the
// request.
func (r *ResourceRequest) IdempotencyKey() string {
	if r.Status.Attempt == 0 {
		return string(r.UID)
	}
	return string(r.UID) + "." + strconv.FormatInt(r.Status.Attempt, 10)
}

// ResourceRequest requests capacity of another cluster. It becomes a virtual node in this
// cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rreq,categories={broker,liqo}
// +kubebuilder:selectablefield:JSONPath=`.status.targetClusterID`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.status.targetClusterID`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.granted.resources.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.granted.resources.memory`
// +kubebuilder:printcolumn:name="GPU",type=string,JSONPath=`.status.granted.resources.nvidia\.com/gpu`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.granted.until`
// +kubebuilder:printcolumn:name="Queue",type=integer,JSONPath=`.status.queue.position`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type ResourceRequest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the capacity to reserve.
	// +required
	Spec ResourceRequestSpec `json:"spec"`

	// status holds the broker's answer and the progress of the peering.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reserved", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ResourceRequestStatus `json:"status,omitempty"`
}

// ResourceRequestList is a list of ResourceRequests.
//
// +kubebuilder:object:root=true
type ResourceRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ResourceRequest `json:"items"`
}
