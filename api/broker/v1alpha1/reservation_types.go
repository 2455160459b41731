package v1alpha1

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReservationPhase is the phase of a reservation's life: Pending → Queued → Reserved → Active → Releasing → Released or
// Failed.
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
	// ReservationReleasing means that the reservation is ending. Its capacity stays held until the provider confirms
	// that none of its pods still run.
	ReservationReleasing ReservationPhase = "Releasing"
	// ReservationReleased means that all capacity is free again.
	ReservationReleased ReservationPhase = "Released"
	// ReservationFailed means that the reservation ended because no cluster could serve it: at its creation, after it
	// was preempted, or after its provider gave it up. status.message says why.
	ReservationFailed ReservationPhase = "Failed"
)

// Types of conditions of a Reservation. All CRDs share ConditionReady.
const (
	// ConditionReady is true while a Reservation is Active, while the cluster of a
	// ClusterAdvertisement can get new placements, or while a BrokerConfig is in use.
	ConditionReady = "Ready"
	// ConditionReserved is true while a cluster holds capacity for the reservation.
	ConditionReserved = "Reserved"
	// ConditionAcknowledged is true when the provider's agent has accepted the placement. It is
	// Unknown when no agent has ever connected for the provider.
	ConditionAcknowledged = "Acknowledged"
	// ConditionNoConsumer is true when requesterID is not the ID of an enrolled cluster. The
	// capacity is held, but nothing will use it.
	ConditionNoConsumer = "NoConsumer"
	// ConditionProviderReachable is false while the provider's agent is silent: it has sent the broker nothing for the
	// time in BrokerConfig.spec.timeouts.silence. It is true again when the agent reports or another provider has taken
	// over. It does not depend on the provider's API server. It is absent until the provider is silent for the first
	// time.
	ConditionProviderReachable = "ProviderReachable"
	// ConditionNodeReady is false while the virtual node is not Ready, after it has been Ready
	// before. It is absent until this happens for the first time.
	ConditionNodeReady = "NodeReady"
	// ConditionNetworkConnected is false while the network between requester and provider is the
	// only thing that the virtual node waits for. Its message names the time until which the broker
	// waits. It is absent if the node never waited for the network alone.
	ConditionNetworkConnected = "NetworkConnected"
	// ConditionChanged shows the outcome of the last edit of spec. It is true when the new values are in force, Unknown
	// while the provider has not agreed to them, and false when they were refused and the former values stay in force.
	// It is absent before the first edit.
	ConditionChanged = "Changed"
	// ConditionPreempted is true when the placement must make room for a request of a higher
	// priority, or has ended for that reason.
	ConditionPreempted = "Preempted"
	// ConditionRecalled is true while the placement has to end because the provider recalls the capacity or an
	// administrator drains the provider, and after the placement has ended for this reason.
	ConditionRecalled = "Recalled"
	// ConditionIdle is true while nobody uses the reservation, and after the reservation was released for this reason.
	// It is false once the reservation is used again, and absent before it was idle for the first time. See Idle.
	ConditionIdle = "Idle"
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
	ReasonProvisioning     = "Provisioning"
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
	ReasonIdle             = "Idle"
	ReasonInUse            = "InUse"
)

// Labels of the objects that the broker creates.
const (
	// ManagedByLabel marks the Reservations and ClusterAdvertisements that the broker creates for
	// agents. Those that people create do not have it.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ManagedByBroker is the value of ManagedByLabel.
	ManagedByBroker = "liqo-resource-broker"
)

// ReservationFinalizer keeps a deleted Reservation until its capacity is released.
const ReservationFinalizer = "broker.fluidos.eu/release"

// RequestedResources maps resource names to requested amounts. The validation rules explain frequent mistakes better
// than the schema's pattern does. They compare strings, because the API server takes minutes to parse a quantity such
// as 1e-2147483647, even after the pattern has rejected the value. Some invalid values, such as 0e1, pass the rules;
// the broker refuses them. There are at most ten names, and several rules about characters, because the API server
// limits the cost of each rule.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=10
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).startsWith('-'))",message="an amount cannot be negative: ask for more than zero, or leave the resource out"
// +kubebuilder:validation:XValidation:rule="self.exists(k, string(self[k]).matches('[1-9]'))",message="at least one amount must be above zero, for example cpu: 500m"
// +kubebuilder:validation:XValidation:rule="['cpu', 'memory'].all(k, !(k in self) || string(self[k]).matches('^[^eE]*[1-9]'))",message="cpu and memory must be above zero, for example cpu: 500m and memory: 256Mi"
// +kubebuilder:validation:XValidation:rule="!('memory' in self) || size(string(self['memory'])) > 64 || string(self['memory']).matches('[eE].?[0-9]{3}') || !isQuantity(string(self['memory'])) || quantity(string(self['memory'])).compareTo(quantity('0')) <= 0 || quantity(string(self['memory'])).compareTo(quantity('1Mi')) >= 0",message="memory must be at least 1Mi: without a unit it is a number of bytes, for example 4Gi"
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).matches('[Bbgo-t]'))",message="an amount is a number with a unit such as m, Mi or Gi where it needs one, for example 500m or 4Gi, not 4GB, 4g or 2cores"
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).matches('[a-dv-z]'))",message="an amount is a number with a unit such as m, Mi or Gi where it needs one, for example 500m or 4Gi, not 4GB, 4g or 2cores"
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).matches('[ ,_Q-Z]'))",message="an amount is a number with a unit such as m, Mi or Gi where it needs one, for example 500m or 4Gi, not 4GB, 4g or 2cores"
type RequestedResources map[corev1.ResourceName]resource.Quantity

// The first rule of ReservationSpec begins with self == oldSelf. The API server also evaluates it at every write of the
// status. The spec is then unchanged, so the comparison decides, and the expensive has() calls that follow are not
// evaluated: each would copy the schema.

// ReservationSpec describes the capacity to reserve. requestedResources, duration and release
// can be changed. To change anything else, create another Reservation.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf || has(self.priority) == has(oldSelf.priority) && has(self.targetClusterID) == has(oldSelf.targetClusterID) && has(self.tenant) == has(oldSelf.tenant) && has(self.queuePolicy) == has(oldSelf.queuePolicy) && has(self.queueTimeout) == has(oldSelf.queueTimeout) && has(self.healing) == has(oldSelf.healing) && has(self.idle) == has(oldSelf.idle) && has(self.group) == has(oldSelf.group) && has(self.constraints) == has(oldSelf.constraints) && has(self.podShapes) == has(oldSelf.podShapes) && has(self.data) == has(oldSelf.data)",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
// +kubebuilder:validation:XValidation:rule="has(self.podShapes) || 'cpu' in self.requestedResources && 'memory' in self.requestedResources",fieldPath=".requestedResources",message="set both cpu and memory, for example cpu: 500m and memory: 256Mi, or podShapes: a virtual node needs both"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.release) || !oldSelf.release || (has(self.release) && self.release)",message="a Reservation that was released cannot be taken back: create another"
// +kubebuilder:validation:XValidation:rule="!has(self.queueTimeout) || has(self.queuePolicy) && self.queuePolicy == 'Queue'",fieldPath=".queueTimeout",message="queueTimeout has no effect without queuePolicy: Queue: set that too, or leave queueTimeout out"
type ReservationSpec struct {
	// requestedResources are the amounts to reserve. cpu and memory are required unless podShapes
	// contain them, because no virtual node of Liqo becomes Ready without both.
	// +required
	RequestedResources RequestedResources `json:"requestedResources"`

	// duration is how long the reservation is held, from 1m to 87600h (ten years), counted from
	// status.reservedAt. It defaults to BrokerConfig.spec.defaultTTL (1h). A new duration must
	// end in the future.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="duration must be at least 1m and at most 87600h, for example 2h30m, or left out"
	Duration *metav1.Duration `json:"duration,omitempty"`

	// priority is the priority of the reservation. Reservations that wait for capacity are served
	// in the order of their priorities, highest first. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	Priority int32 `json:"priority,omitempty"`

	// requesterID is the ID of the cluster that will use the capacity. Any other value serves only
	// as a label: the broker holds the capacity, but no cluster uses it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="requesterID must be a cluster ID, or another name made of letters, digits, '-', '_' and '.'"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	RequesterID string `json:"requesterID"`

	// targetClusterID is the ID of the only cluster that may provide the capacity. By default any cluster may provide
	// it.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	TargetClusterID string `json:"targetClusterID,omitempty"`

	// tenant names the tenant for whom the capacity is reserved. The broker shows the tenant and keeps accounts for
	// it, but does not limit what a tenant reserves.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^\x00-\x1f\x7f-\x9f]*$')`,message="tenant must not contain control characters"
	Tenant string `json:"tenant,omitempty"`

	// queuePolicy says what happens when no cluster has room, at first or after the placement ended
	// early: Fail (the default) lets the reservation fail, Queue lets it wait for capacity.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	QueuePolicy QueuePolicy `json:"queuePolicy,omitempty"`

	// queueTimeout is how long the reservation may wait in the queue before it fails. It
	// defaults to BrokerConfig.spec.queue.defaultTimeout (1h).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="queueTimeout must be at least 1s and at most 87600h, for example 2h30m, or left out"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	QueueTimeout *metav1.Duration `json:"queueTimeout,omitempty"`

	// healing says what happens when the provider's agent stops answering, or when the virtual node has not been Ready
	// for the time in BrokerConfig.spec.timeouts.notReady. Migrate (the default) moves the reservation to another
	// cluster with room; the old virtual node stays until the new one is Ready. Wait keeps the reservation at its
	// provider until that provider is back.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	Healing Healing `json:"healing,omitempty"`

	// idle says what happens when nobody uses the reservation. By default nothing happens, unless
	// BrokerConfig.spec.idle says otherwise.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="of a Reservation only requestedResources, duration and release can be changed: delete it and create another"
	Idle *Idle `json:"idle,omitempty"`

	// release ends the reservation once it is true. The object stays, in phase Released, so that it can still be read.
	// release cannot be set back to false.
	// +optional
	Release bool `json:"release,omitempty"`

	Requirements `json:",inline"`
}

// PlacementState is the state of one placement.
//
// +kubebuilder:validation:Enum=Assigned;Provisioning;Acknowledged;Connecting;Ready;Withdrawing;Gone
type PlacementState string

// States of a placement.
const (
	// PlacementAssigned means that capacity is held and the provider has not answered yet.
	PlacementAssigned PlacementState = "Assigned"
	// PlacementProvisioning means that the provider creates nodes for the placement.
	PlacementProvisioning PlacementState = "Provisioning"
	// PlacementAcknowledged means that the provider has accepted.
	PlacementAcknowledged PlacementState = "Acknowledged"
	// PlacementConnecting means that the virtual node waits only for the network between the two
	// clusters.
	PlacementConnecting PlacementState = "Connecting"
	// PlacementReady means that the consumer's virtual node is Ready.
	PlacementReady PlacementState = "Ready"
	// PlacementWithdrawing means that the placement has ended. Its capacity stays held until the
	// provider confirms that nothing of the placement is left.
	PlacementWithdrawing PlacementState = "Withdrawing"
	// PlacementGone means that nothing of the placement is left and its capacity is free again.
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

	// state is how far the placement has come.
	// +required
	State PlacementState `json:"state"`

	// reason is why the placement ended. It is set only if the placement ended before the
	// reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// PlacementName returns the name of a placement: the reservation's name and the number of the
// placement. Instructions, ResourceSlice and virtual node of the placement have this name.
func PlacementName(reservation string, number int32) string {
	return reservation + "-" + strconv.Itoa(int(number))
}

// Granted is the capacity that the requester may use now.
type Granted struct {
	// resources are the amounts that the provider has agreed to hold.
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// until is when the provider takes the capacity back: at the end of the duration, or earlier if the reservation is
	// preempted or recalled. It is empty if the reservation has no duration and the requester renews it.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// ReservationCost is what a reservation costs. When the broker grants a placement, it locks the price until the end
// of the duration. Without a duration, the first renewal of each day takes over the provider's price at that time,
// unless this price exceeds maxPrice. Costs of a placement count from the provider's acknowledgement until the
// placement is given up or the reservation ends. If a placement replaces another one, its costs count from the end of
// the replaced placement. All amounts are exact to nine decimal places.
type ReservationCost struct {
	// perHour is the price of one hour of the current placement. It is empty while the reservation has no placement.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	PerHour string `json:"perHour,omitempty"`

	// soFar is the cost until the time in asOf. It is not updated all the time, to save writes: until the next change,
	// the cost at a later time is soFar + perHour × the hours since asOf.
	// +required
	// +kubebuilder:validation:MaxLength=60
	SoFar string `json:"soFar"`

	// asOf is the time until which soFar counts: when price, amounts or provider last changed. It is empty until the
	// provider has acknowledged.
	// +optional
	AsOf *metav1.Time `json:"asOf,omitempty"`

	// toEnd is the whole cost until the end of the duration, if nothing changes. It is empty if the reservation has no
	// duration or no placement.
	// +optional
	// +kubebuilder:validation:MaxLength=60
	ToEnd string `json:"toEnd,omitempty"`

	// currency is the ISO 4217 code of perHour, soFar and toEnd.
	// +required
	// +kubebuilder:validation:MaxLength=3
	Currency string `json:"currency"`

	// notPriced lists the reserved resources for which the provider names no price. They are not billed, and the amounts
	// of money leave them out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=317
	NotPriced []string `json:"notPriced,omitempty"`

	// earlier lists the costs of earlier placements that had prices in other currencies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Earlier []EarlierCost `json:"earlier,omitempty"`
}

// EarlierCost is the cost of earlier placements in one currency.
type EarlierCost struct {
	// amount is a decimal number, exact to nine decimal places.
	// +required
	// +kubebuilder:validation:MaxLength=60
	Amount string `json:"amount"`

	// currency is the ISO 4217 code of amount.
	// +required
	// +kubebuilder:validation:MaxLength=3
	Currency string `json:"currency"`
}

// Receipt is the broker's signed statement about a placement: the parties, the amounts, the price, the times, and a
// place in the broker's journal. Anyone who has the CA of the broker's server certificate can verify it with kubectl
// broker audit receipt, even after that certificate has expired.
type Receipt struct {
	// statement is the signed text, in JSON.
	// +required
	// +kubebuilder:validation:MaxLength=16384
	Statement string `json:"statement"`

	// certificates is the certificate chain of the broker's server certificate, in DER, without the root CA.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=8192
	Certificates [][]byte `json:"certificates"`

	// signature signs the statement and the certificates with the key of the first certificate.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Signature []byte `json:"signature"`
}

// Candidate is a cluster that the broker considered in a decision.
type Candidate struct {
	// clusterID is the ID of the candidate. It is empty when BrokerConfig.spec.visibility hides the
	// name from the requester.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID,omitempty"`

	// score is the candidate's score, 0.00 to 100.00. It is empty for rejected candidates.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Score string `json:"score,omitempty"`

	// criteria are the scores of the candidate by criterion, before they are weighted.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Criteria map[string]string `json:"criteria,omitempty"`

	// reason is why the candidate was not chosen; empty for the winner. LowerScore: another
	// candidate has a higher score, or the same score and comes first by name.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message explains reason with figures that the other fields do not contain.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// pricePerHour is what the request costs on the candidate for one hour, for the amounts requested and at the
	// prices of the time of the decision. It is empty when the candidate has no price or the requester may not see
	// it. It is also empty in a ResourceRequest whose amounts or duration were changed after the decision, and in a
	// granted Reservation, where criteria show the score for cost instead.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	PricePerHour string `json:"pricePerHour,omitempty"`

	// currency is the ISO 4217 code of pricePerHour.
	// +optional
	// +kubebuilder:validation:MaxLength=3
	Currency string `json:"currency,omitempty"`

	// notPriced lists the requested resources for which a candidate with prices names none. pricePerHour leaves them out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=317
	NotPriced []string `json:"notPriced,omitempty"`
}

// DropPrice empties the fields about the candidate's price.
func (c *Candidate) DropPrice() { c.PricePerHour, c.Currency, c.NotPriced = "", "", nil }

// ReservationStatus is the broker's decision and the state of the reservation. The broker sets
// it.
type ReservationStatus struct {
	// phase summarizes the state in one word, for people to read.
	// +optional
	Phase ReservationPhase `json:"phase,omitempty"`

	// attempt counts how often capacity was requested anew: an edit of a Reservation that has
	// ended begins the next attempt, unless spec.release is set. The first attempt is 0.
	// +optional
	Attempt int64 `json:"attempt,omitempty"`

	// reservationName is the broker's name of the reservation: res- and ten characters. Slices
	// and virtual nodes are named after it and the number of the placement.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ReservationName string `json:"reservationName,omitempty"`

	// targetClusterID is the ID of the current provider.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	TargetClusterID string `json:"targetClusterID,omitempty"`

	// targetClusterEndpoint is the https address of the API server of the current provider.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	TargetClusterEndpoint string `json:"targetClusterEndpoint,omitempty"`

	// granted is the capacity that the requester may use now. An edit of spec changes granted only once broker and
	// provider have accepted the edit. It is set while the phase is Reserved or Active.
	// +optional
	Granted *Granted `json:"granted,omitempty"`

	// cost is what the reservation costs. It is not set if the provider has no price.
	// +optional
	Cost *ReservationCost `json:"cost,omitempty"`

	// requestedBy is the user who asked for the capacity: a user of the broker's cluster, or, for example, "alice, as
	// reported by rome". It is empty if the broker does not know the name.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	RequestedBy string `json:"requestedBy,omitempty"`

	// changedBy is the user who last changed the reservation, in the same form as requestedBy.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ChangedBy string `json:"changedBy,omitempty"`

	// endedBy is the user who ended the reservation, in the same form as requestedBy, or the part of the broker that
	// ended it.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	EndedBy string `json:"endedBy,omitempty"`

	// reservedAt is when the broker first granted the capacity.
	// +optional
	ReservedAt *metav1.Time `json:"reservedAt,omitempty"`

	// expiresAt is when the reservation ends and its release starts.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// idleSince is since when nobody uses the reservation. It is set while condition
	// Idle is true, until the end.
	// +optional
	IdleSince *metav1.Time `json:"idleSince,omitempty"`

	// message describes the state in words, and the next step if the user has to act.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// queue is the reservation's place in the queue. It is set only while the reservation
	// waits.
	// +optional
	Queue *QueuePlace `json:"queue,omitempty"`

	// placements are the placements of the reservation, oldest first, at most 32. If there are
	// more, the oldest ended ones are left out and counted in earlierPlacements.
	// +optional
	// +listType=map
	// +listMapKey=number
	// +kubebuilder:validation:MaxItems=32
	Placements []Placement `json:"placements,omitempty"`

	// earlierPlacements is the number of ended placements that placements leaves out.
	// +optional
	EarlierPlacements int32 `json:"earlierPlacements,omitempty"`

	// candidates explain the last decision: the ten best candidates, the chosen one first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Candidates []Candidate `json:"candidates,omitempty"`

	// rejected is the number of rejected candidates for each reason.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Rejected map[string]int32 `json:"rejected,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the broker has processed the
	// object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Reserved and Acknowledged. Where they apply, NoConsumer, Changed, ProviderReachable,
	// NodeReady, NetworkConnected, Preempted, Recalled and Idle are added.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Reservation holds capacity of one cluster for another. Users create Reservations with kubectl;
// the broker creates one for each reservation that an agent requests.
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
// +kubebuilder:printcolumn:name="Reservation",type=string,JSONPath=`.status.reservationName`,priority=1
// +kubebuilder:printcolumn:name="Per-Hour",type=string,JSONPath=`.status.cost.perHour`,priority=1
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.status.cost.currency`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type Reservation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the capacity to reserve.
	// +required
	Spec ReservationSpec `json:"spec"`

	// status is the broker's decision and the state of the reservation. Only the broker writes it,
	// always as a whole; therefore the API server need not track who owns each of its fields.
	// +optional
	// +structType=atomic
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the broker", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Reserved", status: "Unknown", reason: "Pending", message: "waiting for the broker", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ReservationStatus `json:"status,omitempty"`
}

// AttemptKey returns the key under which the broker knows the current attempt of a Reservation
// that was created with kubectl.
func (r *Reservation) AttemptKey() string {
	if r.Status.Attempt == 0 {
		return string(r.UID)
	}
	return string(r.UID) + "." + strconv.FormatInt(r.Status.Attempt, 10)
}

// ReservationList is a list of Reservations.
//
// +kubebuilder:object:root=true
type ReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Reservation `json:"items"`
}
