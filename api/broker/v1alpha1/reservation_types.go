package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReservationPhase is where a reservation is in its life:
// Pending → Queued → Reserved → Active → Releasing → Released, and Failed.
//
// +kubebuilder:validation:Enum=Pending;Queued;Reserved;Active;Releasing;Released;Failed
type ReservationPhase string

// Phases of a Reservation.
const (
	// ReservationPending means that the broker has not decided yet.
	ReservationPending ReservationPhase = "Pending"
	// ReservationQueued means that the reservation waits for capacity.
	ReservationQueued ReservationPhase = "Queued"
	// ReservationReserved means that capacity is locked on the target cluster.
	ReservationReserved ReservationPhase = "Reserved"
	// ReservationActive means that the provider has acknowledged and the
	// consumer's virtual node is Ready.
	ReservationActive ReservationPhase = "Active"
	// ReservationReleasing means that the reservation ends: its capacity is held
	// until the provider confirms that nothing of it runs any more.
	ReservationReleasing ReservationPhase = "Releasing"
	// ReservationReleased means that everything is given back.
	ReservationReleased ReservationPhase = "Released"
	// ReservationFailed means that no cluster could hold it; see status.message.
	ReservationFailed ReservationPhase = "Failed"
)

// Conditions of a Reservation. ConditionReady is common to all kinds.
const (
	// ConditionReady is true when the object does what it is for.
	ConditionReady = "Ready"
	// ConditionReserved is true while capacity is held.
	ConditionReserved = "Reserved"
	// ConditionAcknowledged is true when the provider's agent has accepted the
	// placement, Unknown where no agent ever connected for the provider.
	ConditionAcknowledged = "Acknowledged"
	// ConditionNoConsumer is true when requesterID names no enrolled cluster, so
	// that nobody will peer for this reservation.
	ConditionNoConsumer = "NoConsumer"
	// ConditionProviderReachable is false while nothing is heard of the provider's agent,
	// also while another provider is about to take over.
	// One that was never silent has no such condition.
	ConditionProviderReachable = "ProviderReachable"
	// ConditionChanged tells of the last edit of spec: true when it is in force, false
	// when it was refused and what was agreed before holds. Without an edit it is absent.
	ConditionChanged = "Changed"
	// ConditionPreempted is true when the placement has to make room for a higher
	// priority, or had to.
	ConditionPreempted = "Preempted"
	// ConditionRecalled is true when the provider of the placement wants it back, or has
	// taken it back.
	ConditionRecalled = "Recalled"
)

// Reasons of conditions and events of a Reservation. They are stable.
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
)

// Labels of the objects that the broker makes.
const (
	// ManagedByLabel marks a Reservation that shows what an agent asked for, and a
	// ClusterAdvertisement that shows what an agent offers.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedByBroker is the value of ManagedByLabel.
	ManagedByBroker = "liqo-resource-broker"
)

// ReservationFinalizer keeps a Reservation until its capacity is given back.
const ReservationFinalizer = "broker.fluidos.eu/release"

// RequestedResources is how much is wanted of each resource, by Kubernetes
// resource name. Ten names keep the rules below within what the API server lets
// a rule cost. The rules read text: to parse 1e-2147483647 as a quantity takes
// the API server minutes, and a rule is run even where the pattern has failed. What
// they let pass, such as 0e1, the broker refuses.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=10
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).startsWith('-'))",message="an amount cannot be negative: ask for more than zero, or leave the resource out"
// +kubebuilder:validation:XValidation:rule="self.exists(k, string(self[k]).matches('[1-9]'))",message="at least one amount must be above zero, for example cpu: 500m"
// +kubebuilder:validation:XValidation:rule="!('cpu' in self) || string(self['cpu']).matches('^[^eE]*[1-9]') || self.exists(k, k.contains('/') && string(self[k]) != '0')",message="cpu must be above zero, for example 500m, or left out; only beside an extended resource such as nvidia.com/gpu may it be 0"
type RequestedResources map[corev1.ResourceName]resource.Quantity

// The first rule of ReservationSpec compares the whole before it looks at single fields: it
// is asked at every write of a status, too, and each has() there costs the API server a copy
// of the schema.

// ReservationSpec is what is asked for. Of what stands, requestedResources, duration and release can be
// changed; for anything else make another Reservation.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf || has(self.priority) == has(oldSelf.priority) && has(self.targetClusterID) == has(oldSelf.targetClusterID) && has(self.tenant) == has(oldSelf.tenant) && has(self.queuePolicy) == has(oldSelf.queuePolicy) && has(self.queueTimeout) == has(oldSelf.queueTimeout) && has(self.healing) == has(oldSelf.healing) && has(self.group) == has(oldSelf.group) && has(self.constraints) == has(oldSelf.constraints) && has(self.podShapes) == has(oldSelf.podShapes) && has(self.data) == has(oldSelf.data)",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.release) || !oldSelf.release || (has(self.release) && self.release)",message="a Reservation that was released cannot be taken back: create another"
type ReservationSpec struct {
	// requestedResources is how much is wanted of each resource.
	// +required
	RequestedResources RequestedResources `json:"requestedResources"`

	// duration the reservation is held, from one minute to ten years (87600h), counted
	// from status.reservedAt. It defaults to BrokerConfig.spec.defaultTTL (1h). It can be
	// changed as long as the new one ends in the future.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="duration must be at least 1m and at most 87600h, for example 2h30m, or left out"
	Duration *metav1.Duration `json:"duration,omitempty"`

	// priority orders reservations that compete; higher comes first.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	Priority int32 `json:"priority,omitempty"`

	// requesterID is the cluster ID of the cluster that will use the capacity.
	// Any other value is a label: capacity is locked, nobody peers.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="requesterID must be a cluster ID, or another name made of letters, digits, '-', '_' and '.'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	RequesterID string `json:"requesterID"`

	// targetClusterID asks for one provider; any provider if empty.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	TargetClusterID string `json:"targetClusterID,omitempty"`

	// tenant on whose behalf the reservation is made.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	Tenant string `json:"tenant,omitempty"`

	// queuePolicy says what happens where no cluster can hold it, now or after its
	// placement was given up: Fail (the default), or Queue: it waits for capacity.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	QueuePolicy QueuePolicy `json:"queuePolicy,omitempty"`

	// queueTimeout is how long it waits at most; then it fails. It defaults to
	// BrokerConfig.spec.queue.defaultTimeout (1h).
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="queueTimeout must be at least 1s and at most 87600h, for example 2h30m, or left out"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	QueueTimeout *metav1.Duration `json:"queueTimeout,omitempty"`

	// healing says what happens when nothing is heard of the provider any more: Migrate
	// (the default), to another cluster that has room, and the old one is left only when
	// the new virtual node is Ready; or Wait, until the provider is heard again.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	Healing Healing `json:"healing,omitempty"`

	// release gives the capacity back and leaves this object, Released, to be read.
	// It cannot be taken back.
	// +optional
	Release bool `json:"release,omitempty"`

	Terms `json:",inline"`
}

// PlacementState is where one placement is in its life.
//
// +kubebuilder:validation:Enum=Assigned;Acknowledged;Ready;Withdrawing;Gone
type PlacementState string

// States of a placement.
const (
	// PlacementAssigned means held, the provider has not answered yet.
	PlacementAssigned PlacementState = "Assigned"
	// PlacementAcknowledged means that the provider has accepted.
	PlacementAcknowledged PlacementState = "Acknowledged"
	// PlacementReady means that the consumer's virtual node is Ready.
	PlacementReady PlacementState = "Ready"
	// PlacementWithdrawing means held until the provider confirms that nothing
	// of the placement is left.
	PlacementWithdrawing PlacementState = "Withdrawing"
	// PlacementGone means that the capacity is free again.
	PlacementGone PlacementState = "Gone"
)

// Placement is one try to serve a reservation on one provider. Moving to
// another provider is a new placement beside the old one.
type Placement struct {
	// number of the placement within the reservation, from 1.
	// +required
	Number int32 `json:"number"`

	// clusterID of the provider.
	// +required
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// state of the placement.
	// +required
	State PlacementState `json:"state"`

	// reason why the placement ended, if it did not end with the reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// CandidateScore is one line of the explanation of a decision.
type CandidateScore struct {
	// clusterID of the candidate; empty where the requester may not see it.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID,omitempty"`

	// score of the candidate, 0.00 to 100.00; empty if it was filtered out.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Score string `json:"score,omitempty"`

	// criteria is the score per criterion before weighing.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Criteria map[string]string `json:"criteria,omitempty"`

	// reason why the candidate was not chosen; empty for the winner. LowerScore: it could
	// provide, another one scores higher, or as high and comes first by name.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message says more, with the figures, where reason and scores do not say it all.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// pricePerHour is what the request costs there for an hour; empty if the candidate
	// names no price, or the requester may not see it, and in the status of a Reservation
	// that was granted, where the score for cost stands for it.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	PricePerHour string `json:"pricePerHour,omitempty"`

	// currency of pricePerHour.
	// +optional
	// +kubebuilder:validation:MaxLength=3
	Currency string `json:"currency,omitempty"`
}

// ReservationStatus is what the broker decided and where the reservation is.
type ReservationStatus struct {
	// phase of the reservation.
	// +optional
	Phase ReservationPhase `json:"phase,omitempty"`

	// reservationName is the name that the broker minted, res- and ten characters.
	// With the placement's number it names slice and virtual node.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ReservationName string `json:"reservationName,omitempty"`

	// targetClusterID is the provider of the current placement.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	TargetClusterID string `json:"targetClusterID,omitempty"`

	// targetClusterEndpoint is the API server of that provider.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	TargetClusterEndpoint string `json:"targetClusterEndpoint,omitempty"`

	// reservedAt is when the capacity was locked.
	// +optional
	ReservedAt *metav1.Time `json:"reservedAt,omitempty"`

	// expiresAt is when the reservation starts to be released.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// message says in words where the reservation is and what to do, if anything.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// queue is its place in the queue while it waits.
	// +optional
	Queue *QueuePlace `json:"queue,omitempty"`

	// placements of the reservation, oldest first.
	// +optional
	// +listType=map
	// +listMapKey=number
	// +kubebuilder:validation:MaxItems=32
	Placements []Placement `json:"placements,omitempty"`

	// candidates explains the last decision: the best ten, winner first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Candidates []CandidateScore `json:"candidates,omitempty"`

	// rejected counts the candidates that were filtered out, by reason.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Rejected map[string]int32 `json:"rejected,omitempty"`

	// observedGeneration is the generation that this status speaks of; 0 means
	// not seen yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reserved, Acknowledged and, where they apply, NoConsumer
	// and Preempted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Reservation locks capacity of one cluster for another. It is made with
// kubectl, or by the broker for a reservation that an agent asked for over REST.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rsv,categories={broker,liqo}
// +kubebuilder:selectablefield:JSONPath=`.spec.requesterID`
// +kubebuilder:selectablefield:JSONPath=`.status.targetClusterID`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Requester",type=string,JSONPath=`.spec.requesterID`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.status.targetClusterID`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.requestedResources.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.requestedResources.memory`
// +kubebuilder:printcolumn:name="GPU",type=string,JSONPath=`.spec.requestedResources.nvidia\.com/gpu`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="Queue",type=integer,JSONPath=`.status.queue.position`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.status.reservationName`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type Reservation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is asked for.
	// +required
	Spec ReservationSpec `json:"spec"`

	// status is what the broker decided. The broker alone writes it, as a whole, so the API
	// server does not keep account of its single fields.
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
