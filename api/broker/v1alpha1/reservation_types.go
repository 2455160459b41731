package v1alpha1

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReservationPhase summarizes the life of a reservation: Pending → Queued → Reserved → Active →
// Releasing → Released or Failed.
//
// +kubebuilder:validation:Enum=Pending;Queued;Reserved;Active;Releasing;Released;Failed
type ReservationPhase string

// Phases of a Reservation.
const (
	// ReservationPending means that the broker has not decided yet.
	ReservationPending ReservationPhase = "Pending"
	// ReservationQueued means that the reservation waits for capacity.
	ReservationQueued ReservationPhase = "Queued"
	// ReservationReserved means that capacity is held on the target cluster.
	ReservationReserved ReservationPhase = "Reserved"
	// ReservationActive means that the provider has acknowledged and the
	// consumer's virtual node is Ready.
	ReservationActive ReservationPhase = "Active"
	// ReservationReleasing means that the reservation is ending. Its capacity is held until the
	// provider confirms that nothing of it runs.
	ReservationReleasing ReservationPhase = "Releasing"
	// ReservationReleased means that all capacity is free again.
	ReservationReleased ReservationPhase = "Released"
	// ReservationFailed means that no cluster could hold the reservation, at first or after it was
	// preempted or given up; see status.message.
	ReservationFailed ReservationPhase = "Failed"
)

// Types of conditions of a Reservation. All CRDs share ConditionReady.
const (
	// ConditionReady is true when an object serves its purpose.
	ConditionReady = "Ready"
	// ConditionReserved is true while capacity is held.
	ConditionReserved = "Reserved"
	// ConditionAcknowledged is true when the provider's agent has accepted the placement. It is
	// Unknown when no agent has ever connected for the provider.
	ConditionAcknowledged = "Acknowledged"
	// ConditionNoConsumer is true when requesterID is not an enrolled cluster, so that no
	// cluster will peer for this reservation.
	ConditionNoConsumer = "NoConsumer"
	// ConditionProviderReachable is false while the provider's agent is silent, including while
	// another provider is about to take over. It is absent until the provider is silent for the
	// first time.
	ConditionProviderReachable = "ProviderReachable"
	// ConditionNodeReady is false while the virtual node is not Ready although it was. It is absent
	// until that happens for the first time.
	ConditionNodeReady = "NodeReady"
	// ConditionNetworkConnected is false while the virtual node waits only for the network between
	// requester and provider; its message names the broker's deadline. It is absent if the node
	// never waited for the network alone.
	ConditionNetworkConnected = "NetworkConnected"
	// ConditionChanged shows the outcome of the last edit of spec: true when it is in force,
	// false when it was refused and the former values stay in force. It is absent before the
	// first edit.
	ConditionChanged = "Changed"
	// ConditionPreempted is true when the placement must make room for a higher priority, or
	// had to.
	ConditionPreempted = "Preempted"
	// ConditionRecalled is true when the provider wants the placement back, or has taken it
	// back.
	ConditionRecalled = "Recalled"
)

// Reasons of conditions and events of a Reservation. They do not change between versions.
const (
	ReasonPending          = "Pending"
	ReasonQueued           = "Queued"
	ReasonQueueFull        = "QueueFull"
	ReasonNotice           = "PreemptionNotice"
	ReasonNoticeWithdrawn  = "NoticeWithdrawn"
	ReasonPreempted        = "Preempted"
	ReasonRecallNotice     = "RecallNotice"
	ReasonRecalled         = "Recalled"
	ReasonReserved         = "Reserved"
	ReasonActive           = "Active"
	ReasonReleasing        = "Releasing"
	ReasonReleased         = "Released"
	ReasonExpired          = "Expired"
	ReasonNoCandidate      = "NoCandidate"
	ReasonInvalid          = "Invalid"
	ReasonMoved            = "PlacementMoved"
	ReasonAcknowledged     = "Acknowledged"
	ReasonAwaitingProvider = "AwaitingProvider"
	ReasonNoAgent          = "NoAgent"
	ReasonUnknownRequester = "UnknownRequester"
	ReasonConnected        = "Connected"
	ReasonChanged          = "Changed"
	ReasonChangeRefused    = "ChangeRefused"
	ReasonShownAgain       = "SpecShownAgain"
	ReasonProviderSilent   = "ProviderSilent"
	ReasonProviderBack     = "ProviderBack"
	ReasonMigrating        = "Migrating"
	ReasonMigrated         = "Migrated"
	ReasonNodeReady        = "NodeReady"
	ReasonNodeNotReady     = "NodeNotReady"
	ReasonNetworkPending   = "NetworkPending"
	ReasonNetworkConnected = "NetworkConnected"
)

// Labels of objects that the broker creates.
const (
	// ManagedByLabel marks a Reservation that an agent requested, and a ClusterAdvertisement
	// that an agent sends.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedByBroker is the value of ManagedByLabel.
	ManagedByBroker = "liqo-resource-broker"
)

// ReservationFinalizer keeps a Reservation until its capacity is released.
const ReservationFinalizer = "broker.fluidos.eu/release"

// RequestedResources maps resource names to requested amounts. At most ten names keep the cost
// of the rules within the API server's limit. The rules compare strings because parsing a
// quantity such as 1e-2147483647 takes the API server minutes, even when the pattern has
// already failed. The broker refuses the remaining invalid values, such as 0e1.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=10
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).startsWith('-'))",message="an amount cannot be negative: ask for more than zero, or leave the resource out"
// +kubebuilder:validation:XValidation:rule="self.exists(k, string(self[k]).matches('[1-9]'))",message="at least one amount must be above zero, for example cpu: 500m"
// +kubebuilder:validation:XValidation:rule="['cpu', 'memory'].all(k, !(k in self) || string(self[k]).matches('^[^eE]*[1-9]'))",message="cpu and memory must be above zero, for example cpu: 500m and memory: 256Mi"
// +kubebuilder:validation:XValidation:rule="!('memory' in self) || size(string(self['memory'])) > 64 || string(self['memory']).matches('[eE].?[0-9]{3}') || !isQuantity(string(self['memory'])) || quantity(string(self['memory'])).compareTo(quantity('0')) <= 0 || quantity(string(self['memory'])).compareTo(quantity('1Mi')) >= 0",message="memory must be at least 1Mi: without a unit it is a number of bytes, for example 4Gi"
type RequestedResources map[corev1.ResourceName]resource.Quantity

// The first rule of ReservationSpec compares the whole spec first: the API server evaluates it
// at every status write too, and each has() costs a copy of the schema.

// ReservationSpec describes the capacity to reserve. requestedResources, duration and release
// can be changed. To change anything else, create another Reservation.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf || has(self.priority) == has(oldSelf.priority) && has(self.targetClusterID) == has(oldSelf.targetClusterID) && has(self.tenant) == has(oldSelf.tenant) && has(self.queuePolicy) == has(oldSelf.queuePolicy) && has(self.queueTimeout) == has(oldSelf.queueTimeout) && has(self.healing) == has(oldSelf.healing) && has(self.group) == has(oldSelf.group) && has(self.constraints) == has(oldSelf.constraints) && has(self.podShapes) == has(oldSelf.podShapes) && has(self.data) == has(oldSelf.data)",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
// +kubebuilder:validation:XValidation:rule="has(self.podShapes) || 'cpu' in self.requestedResources && 'memory' in self.requestedResources",fieldPath=".requestedResources",message="set both cpu and memory, for example cpu: 500m and memory: 256Mi, or podShapes: a virtual node needs both"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.release) || !oldSelf.release || (has(self.release) && self.release)",message="a Reservation that was released cannot be taken back: create another"
// +kubebuilder:validation:XValidation:rule="!has(self.queueTimeout) || has(self.queuePolicy) && self.queuePolicy == 'Queue'",fieldPath=".queueTimeout",message="queueTimeout has no effect without queuePolicy: Queue: set that too, or leave queueTimeout out"
type ReservationSpec struct {
	// requestedResources are the amounts to reserve. cpu and memory are required, unless
	// podShapes name them: Liqo makes no virtual node Ready without both.
	// +required
	RequestedResources RequestedResources `json:"requestedResources"`

	// duration is how long the reservation is held, from 1m to 87600h (ten years), counted from
	// status.reservedAt. It defaults to BrokerConfig.spec.defaultTTL (1h). A new duration must
	// end in the future.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="duration must be at least 1m and at most 87600h, for example 2h30m, or left out"
	Duration *metav1.Duration `json:"duration,omitempty"`

	// priority orders competing reservations; the highest comes first. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	Priority int32 `json:"priority,omitempty"`

	// requesterID is the ID of the cluster that will use the capacity. Any other value is only
	// a label: the broker holds the capacity, but no cluster peers.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="requesterID must be a cluster ID, or another name made of letters, digits, '-', '_' and '.'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	RequesterID string `json:"requesterID"`

	// targetClusterID selects one provider. By default the broker chooses among all.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	TargetClusterID string `json:"targetClusterID,omitempty"`

	// tenant is a label for the tenant of the reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	Tenant string `json:"tenant,omitempty"`

	// queuePolicy says what happens when no cluster has room, now or after a placement ended
	// early: the reservation fails (Fail, the default) or waits for capacity (Queue).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	QueuePolicy QueuePolicy `json:"queuePolicy,omitempty"`

	// queueTimeout is how long the reservation may wait in the queue before it fails. It
	// defaults to BrokerConfig.spec.queue.defaultTimeout (1h).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="queueTimeout must be at least 1s and at most 87600h, for example 2h30m, or left out"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	QueueTimeout *metav1.Duration `json:"queueTimeout,omitempty"`

	// healing says what happens when the provider falls silent, or when the node is no longer Ready
	// for timeouts.notReady of the BrokerConfig. Migrate (the default) moves the
	// reservation to another cluster with room; the old virtual node stays until the new one is
	// Ready. Wait keeps the reservation where it is until the provider is back.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	Healing Healing `json:"healing,omitempty"`

	// release ends the reservation and keeps this object, in phase Released, for reading. It
	// cannot be unset.
	// +optional
	Release bool `json:"release,omitempty"`

	Requirements `json:",inline"`
}

// PlacementState is the state of one placement.
//
// +kubebuilder:validation:Enum=Assigned;Acknowledged;Connecting;Ready;Withdrawing;Gone
type PlacementState string

// States of a placement.
const (
	// PlacementAssigned means that capacity is held and the provider has not answered yet.
	PlacementAssigned PlacementState = "Assigned"
	// PlacementAcknowledged means that the provider has accepted.
	PlacementAcknowledged PlacementState = "Acknowledged"
	// PlacementConnecting means that only the network between the two clusters is missing.
	PlacementConnecting PlacementState = "Connecting"
	// PlacementReady means that the consumer's virtual node is Ready.
	PlacementReady PlacementState = "Ready"
	// PlacementWithdrawing means that capacity is held until the provider confirms that nothing
	// of the placement is left.
	PlacementWithdrawing PlacementState = "Withdrawing"
	// PlacementGone means that the capacity is free again.
	PlacementGone PlacementState = "Gone"
)

// Placement is one attempt to serve a reservation on one provider. Each move to another
// provider adds a placement.
type Placement struct {
	// number is the number of the placement within the reservation, from 1.
	// +required
	Number int32 `json:"number"`

	// clusterID is the ID of the provider.
	// +required
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// state is the state of the placement.
	// +required
	State PlacementState `json:"state"`

	// reason is why the placement ended, when it ended before the reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// PlacementName returns the name of everything that is created for a placement: instructions,
// slice and virtual node.
func PlacementName(reservation string, number int32) string {
	return reservation + "-" + strconv.Itoa(int(number))
}

// Granted is capacity that is in force.
type Granted struct {
	// resources are the amounts that the provider has agreed to hold.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// until is when the provider takes the capacity back: at the end of the duration, or earlier
	// after a notice. It is empty while the requester renews the reservation.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// Candidate is one candidate of a decision.
type Candidate struct {
	// clusterID is the ID of the candidate. It is empty when BrokerConfig.spec.visibility hides
	// it from the requester.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID,omitempty"`

	// score is the candidate's score, 0.00 to 100.00. It is empty for rejected candidates.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Score string `json:"score,omitempty"`

	// criteria are the scores per criterion before weighting.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Criteria map[string]string `json:"criteria,omitempty"`

	// reason is why the candidate was not chosen; empty for the winner. LowerScore: another
	// candidate has a higher score, or the same score and comes first by name.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message adds figures that reason and scores do not contain.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// pricePerHour is the price of the request on the candidate for one hour, as requested and at
	// the prices of the decision. It is empty when the candidate has no price or the requester
	// may not see it, in a ResourceRequest whose amounts or duration were changed since, and in
	// the status of a granted Reservation, which shows the score for cost instead.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	PricePerHour string `json:"pricePerHour,omitempty"`

	// currency is the ISO 4217 code of pricePerHour.
	// +optional
	// +kubebuilder:validation:MaxLength=3
	Currency string `json:"currency,omitempty"`
}

// ReservationStatus is the broker's decision and the state of the reservation. The broker sets
// it.
type ReservationStatus struct {
	// phase summarizes the state for people.
	// +optional
	Phase ReservationPhase `json:"phase,omitempty"`

	// reservationName is the broker's name of the reservation: res- and ten characters. Slices
	// and virtual nodes are named after it and the number of the placement.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ReservationName string `json:"reservationName,omitempty"`

	// targetClusterID is the ID of the current provider.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	TargetClusterID string `json:"targetClusterID,omitempty"`

	// targetClusterEndpoint is the address of that provider's API server.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	TargetClusterEndpoint string `json:"targetClusterEndpoint,omitempty"`

	// granted is the capacity that is in force, whatever spec asks for. It is set while the
	// phase is Reserved or Active.
	// +optional
	Granted *Granted `json:"granted,omitempty"`

	// reservedAt is when the broker reserved the capacity.
	// +optional
	ReservedAt *metav1.Time `json:"reservedAt,omitempty"`

	// expiresAt is when the release of the reservation starts.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// message describes the state in words, and the next step if the user has to act.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// queue is the reservation's place in the queue. It is set only while the reservation
	// waits.
	// +optional
	Queue *QueuePlace `json:"queue,omitempty"`

	// placements are the placements of the reservation, oldest first. Of more than 32, the
	// oldest ones that have ended are not listed but counted in earlierPlacements.
	// +optional
	// +listType=map
	// +listMapKey=number
	// +kubebuilder:validation:MaxItems=32
	Placements []Placement `json:"placements,omitempty"`

	// earlierPlacements is the number of placements that are not listed.
	// +optional
	EarlierPlacements int32 `json:"earlierPlacements,omitempty"`

	// candidates explain the last decision: the ten best, winner first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Candidates []Candidate `json:"candidates,omitempty"`

	// rejected is the number of rejected candidates by reason.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Rejected map[string]int32 `json:"rejected,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// broker has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reserved and Acknowledged, and where they apply NoConsumer,
	// Changed, ProviderReachable, NodeReady, NetworkConnected, Preempted and Recalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Reservation holds capacity of one cluster for another. Users create one with kubectl; the
// broker creates one for each reservation that an agent requests over REST.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rsv,categories={broker,liqo}
// +kubebuilder:selectablefield:JSONPath=`.spec.requesterID`
// +kubebuilder:selectablefield:JSONPath=`.status.targetClusterID`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Requester",type=string,JSONPath=`.spec.requesterID`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.status.targetClusterID`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.granted.resources.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.granted.resources.memory`
// +kubebuilder:printcolumn:name="GPU",type=string,JSONPath=`.status.granted.resources.nvidia\.com/gpu`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.granted.until`
// +kubebuilder:printcolumn:name="Queue",type=integer,JSONPath=`.status.queue.position`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.status.reservationName`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type Reservation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the capacity to reserve.
	// +required
	Spec ReservationSpec `json:"spec"`

	// status is the broker's decision and the state of the reservation. Only the broker writes
	// it, always as a whole, so the API server need not track the ownership of each field.
	// +optional
	// +structType=atomic
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the broker", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reserved", status: "Unknown", reason: "Pending", message: "waiting for the broker", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ReservationStatus `json:"status,omitempty"`
}

// ReservationList is a list of Reservations.
//
// +kubebuilder:object:root=true
type ReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Reservation `json:"items"`
}
