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

// ResourceRequestSpec describes the capacity to reserve in another cluster. Amounts (cpu, memory,
// resources), duration, quote and release can be changed. To change anything else, create another
// request.
//
// +kubebuilder:validation:XValidation:rule="has(self.priority) == has(oldSelf.priority) && has(self.namespaces) == has(oldSelf.namespaces) && has(self.queuePolicy) == has(oldSelf.queuePolicy) && has(self.queueTimeout) == has(oldSelf.queueTimeout) && has(self.healing) == has(oldSelf.healing) && has(self.idle) == has(oldSelf.idle)",message="of a ResourceRequest only cpu, memory, resources, duration, quote and release can be changed: delete it and create another"
// +kubebuilder:validation:XValidation:rule="has(self.group) == has(oldSelf.group) && has(self.constraints) == has(oldSelf.constraints) && has(self.podShapes) == has(oldSelf.podShapes) && has(self.data) == has(oldSelf.data) && has(self.offloading) == has(oldSelf.offloading)",message="of a ResourceRequest only cpu, memory, resources, duration, quote and release can be changed: delete it and create another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.release) || !oldSelf.release || (has(self.release) && self.release)",message="a ResourceRequest that was released cannot be taken back: create another"
// +kubebuilder:validation:XValidation:rule="!has(self.queueTimeout) || has(self.queuePolicy) && self.queuePolicy == 'Queue'",fieldPath=".queueTimeout",message="queueTimeout has no effect without queuePolicy: Queue: set that too, or leave queueTimeout out"
// +kubebuilder:validation:XValidation:rule="has(self.podShapes) || has(self.cpu) && has(self.memory)",message="set both cpu and memory, for example cpu: 500m and memory: 256Mi, or podShapes: a virtual node needs both"
type ResourceRequestSpec struct {
	// cpu is the amount of CPU in cores, for example "500m". cpu and memory are required unless
	// podShapes contain them, because no virtual node of Liqo becomes Ready without both.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(string(self)) <= 64 && !string(self).matches('[eE].?[0-9]{3}') && isQuantity(string(self))",message="cpu must be a number of cores, for example 2, 0.5 or 500m"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[0-9]') || !string(self).startsWith('-') && string(self).matches('^[^eE]*[1-9]')",message="cpu must be above zero, for example 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the amount of memory, for example "256Mi".
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(string(self)) <= 64 && !string(self).matches('[eE].?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="memory must be at least 1Mi, written with a unit such as Mi or Gi (not MB or GB), for example 256Mi"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// resources are amounts of other resources, for example nvidia.com/gpu: "1" or pods: "20". At
	// most eight can be named.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self) <= 8",message="at most eight resources can be named besides cpu and memory"
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) && !('memory' in self)",message="cpu and memory have fields of their own: set spec.cpu and spec.memory"
	Resources brokerv1alpha1.RequestedResources `json:"resources,omitempty"`

	// quote is the name of a Quote in the same namespace. The request takes over the capacity that
	// the Quote holds, at the quoted price. cpu, memory, resources, duration and the requirements
	// must equal those of the Quote. The field matters only until the capacity is reserved. Until
	// then, it can be changed to try another Quote.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="quote must be the name of a Quote in the same namespace"
	Quote string `json:"quote,omitempty"`

	// priority is the priority of the request. Requests that wait for capacity are served in the
	// order of their priorities, highest first. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration, quote and release can be changed: delete it and create another"
	Priority int32 `json:"priority,omitempty"`

	// duration is how long the capacity is held, from 1m to 87600h (ten years), counted from
	// status.reservedAt. If it is not set, the capacity is held until this object is deleted or its
	// field release is set. A new duration must end in the future.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="duration must be at least 1m and at most 87600h, for example 2h30m, or left out"
	Duration *metav1.Duration `json:"duration,omitempty"`

	// queuePolicy says what happens when no cluster has room, at the beginning or after the placement
	// has ended early: Fail (the default) lets the request fail, Queue lets it wait for capacity.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration, quote and release can be changed: delete it and create another"
	QueuePolicy brokerv1alpha1.QueuePolicy `json:"queuePolicy,omitempty"`

	// queueTimeout is how long the request may wait in the queue before it fails. It defaults
	// to BrokerConfig.spec.queue.defaultTimeout (1h).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="queueTimeout must be at least 1s and at most 87600h, for example 2h30m, or left out"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration, quote and release can be changed: delete it and create another"
	QueueTimeout *metav1.Duration `json:"queueTimeout,omitempty"`

	// healing says what happens when the provider's agent stops answering, or when the virtual node
	// has not been Ready for the time in BrokerConfig.spec.timeouts.notReady. Migrate (the default)
	// moves the reservation to another cluster with room; the old virtual node stays until the new
	// one is Ready. Wait keeps the reservation at its provider until that provider is back.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration, quote and release can be changed: delete it and create another"
	Healing brokerv1alpha1.Healing `json:"healing,omitempty"`

	// idle says what happens when nobody uses the capacity. By default nothing happens, unless the
	// broker's administrator has limited the idle time of all reservations (BrokerConfig.spec.idle).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration, quote and release can be changed: delete it and create another"
	Idle *brokerv1alpha1.Idle `json:"idle,omitempty"`

	// namespaces are the namespaces whose pods may run on the virtual node. By default this is the
	// request's own namespace; an empty list means none. A namespace other than the request's own
	// must have the label liqo.io/broker-offload, with the request's namespace or true as value.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a namespace is a DNS label: lower-case letters, digits and '-' only"
	// +kubebuilder:validation:items:XValidation:rule="!self.startsWith('kube-') && !self.startsWith('liqo-tenant-')",message="a system namespace cannot be offloaded: leave it out"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration, quote and release can be changed: delete it and create another"
	Namespaces *[]string `json:"namespaces,omitempty"`

	// offloading says how the namespaces are offloaded. By default only pods that select the
	// virtual node run there, and namespaces get a new name at the provider.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a ResourceRequest only cpu, memory, resources, duration, quote and release can be changed: delete it and create another"
	Offloading *Offloading `json:"offloading,omitempty"`

	// release set to true ends the reservation. The object stays, in phase Released. release cannot
	// be set back to false.
	// +optional
	Release bool `json:"release,omitempty"`

	brokerv1alpha1.Requirements `json:",inline"`
}

// ResourceRequestStatus holds the broker's answer and the state of the peering. The agent sets it.
type ResourceRequestStatus struct {
	// phase summarizes the progress in one word, for people to read.
	// +optional
	Phase ResourceRequestPhase `json:"phase,omitempty"`

	// reason says in one word what matters most about the request. It is the reason of the condition
	// from which message is taken.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// asked is true once the agent may have sent the current attempt of the request to the broker.
	// The agent sets it before it calls the broker for the first time.
	// +optional
	Asked bool `json:"asked,omitempty"`

	// attempt is the number of the current attempt, from 0. A new attempt begins when spec is edited
	// after the request has Failed, or was Released although spec.release is not set. The agent then
	// asks the broker again.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// quoteName is the broker's name of the quote that the current attempt takes over. The agent
	// sets it before the first call to the broker, so that repeated calls name the same quote.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	QuoteName string `json:"quoteName,omitempty"`

	// requestedBy is the user who asked for the capacity, as the broker recorded it, for example
	// "alice, as reported by rome". It is empty if the broker does not know the name, for example
	// because of the agent's flag --actor=Hidden.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	RequestedBy string `json:"requestedBy,omitempty"`

	// granted is the capacity that the request may use now. An edit of spec changes granted only
	// once broker and provider have accepted the edit. It is set while the phase is Reserved or
	// Active.
	// +optional
	Granted *brokerv1alpha1.Granted `json:"granted,omitempty"`

	// cost is what the reservation costs, as the broker reported it. It is not set if the provider
	// has no price.
	// +optional
	Cost *brokerv1alpha1.ReservationCost `json:"cost,omitempty"`

	// reservationName is the broker's name of the reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ReservationName string `json:"reservationName,omitempty"`

	// targetClusterID is the ID of the provider.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	TargetClusterID string `json:"targetClusterID,omitempty"`

	// targetClusterEndpoint is the https address of the provider's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	TargetClusterEndpoint string `json:"targetClusterEndpoint,omitempty"`

	// nodeName is the name of the virtual node. Pin pods to it with the node selector
	// broker.fluidos.eu/request: <name of this object>.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	NodeName string `json:"nodeName,omitempty"`

	// nodeLabels are the labels by which pods can select the virtual node: those of its request and
	// its reservation, and the provider's region and zone.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeLabels map[string]string `json:"nodeLabels,omitempty"`

	// reservedAt is when the broker first granted the capacity.
	// +optional
	ReservedAt *metav1.Time `json:"reservedAt,omitempty"`

	// expiresAt is when the reservation ends. It is empty if the request has no duration and the
	// agent renews the reservation.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// idleSince is since when nobody uses the capacity. It is set while condition
	// Idle is true, until the end.
	// +optional
	IdleSince *metav1.Time `json:"idleSince,omitempty"`

	// renewBy is when the broker takes the capacity back, unless the agent renews the reservation
	// earlier. It is set only while a request without duration holds capacity.
	// +optional
	RenewBy *metav1.Time `json:"renewBy,omitempty"`

	// message describes the progress in words, what threatens the capacity, and what the user has to
	// do, if anything.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// queue is the request's place in the queue. It is set only while the request waits.
	// +optional
	Queue *brokerv1alpha1.QueuePlace `json:"queue,omitempty"`

	// candidates are the ten best clusters that the broker considered for the reservation, the chosen
	// one first. They explain the broker's decision.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Candidates []brokerv1alpha1.Candidate `json:"candidates,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// agent has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reserved, Peered, NodeReady and Offloading. Where they apply,
	// NetworkConnected, Healthy, PeeringSkipped, ProviderReachable, Changed, Preempted, Recalled,
	// WithinGrant, Idle, Ending and Drained are added.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IdempotencyKey returns the key that identifies the current attempt of the request at the broker.
func (r *ResourceRequest) IdempotencyKey() string {
	if r.Status.Attempt == 0 {
		return string(r.UID)
	}
	return string(r.UID) + "." + strconv.FormatInt(r.Status.Attempt, 10)
}

// ResourceRequest requests capacity of another cluster. Once the capacity is granted, it appears as
// a virtual node in this cluster.
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
// +kubebuilder:printcolumn:name="Renew-By",type=string,JSONPath=`.status.renewBy`,priority=1
// +kubebuilder:printcolumn:name="Per-Hour",type=string,JSONPath=`.status.cost.perHour`,priority=1
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.status.cost.currency`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type ResourceRequest struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the capacity to reserve.
	// +required
	Spec ResourceRequestSpec `json:"spec"`

	// status holds the broker's answer and the state of the peering.
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
