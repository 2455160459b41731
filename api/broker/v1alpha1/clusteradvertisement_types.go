package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phases of a ClusterAdvertisement.
const (
	// ClusterAdvertisementActive means that the cluster is heard of and sells.
	ClusterAdvertisementActive = "Active"
	// ClusterAdvertisementStale means that the agent missed three intervals:
	// nothing new is placed here, what runs keeps running.
	ClusterAdvertisementStale = "Stale"
	// ClusterAdvertisementInactive means that nothing was heard for
	// BrokerConfig.spec.staleThreshold.
	ClusterAdvertisementInactive = "Inactive"
)

// Conditions of a ClusterAdvertisement.
const (
	// ConditionFresh is true while the cluster is heard of in time. ConditionReady is too,
	// unless its operator has paused lending.
	ConditionFresh = "Fresh"
	// ConditionPlausible is false while figures of the cluster cannot be right, or grew
	// more than fourfold within minutes. They are reckoned with all the same.
	ConditionPlausible = "Plausible"
	// ConditionReliable is false while the broker places nothing new in the cluster, for
	// some or all requesters, because the cluster failed to deliver.
	ConditionReliable = "Reliable"
	// ConditionWithinGrants is false while the cluster gets nothing new from some or all
	// others, because it ran more there than they granted.
	ConditionWithinGrants = "WithinGrants"
	// ConditionWithinBudget is false for ten minutes after the broker has refused a call of
	// the cluster because of its budget, and while resources of it are left out of decisions.
	ConditionWithinBudget = "WithinBudget"
)

// ReasonOverBudget is of the condition WithinBudget, and of the event when it turns false.
const ReasonOverBudget = "OverBudget"

// ReasonFiguresIgnored is the reason of the event that tells that somebody else
// than the broker wrote into spec.resources.reserved or available.
const ReasonFiguresIgnored = "FiguresIgnored"

// ReasonImplausible is of the condition Plausible, and of the event when it turns false.
const ReasonImplausible = "Implausible"

// Reasons of the conditions Reliable and WithinGrants, and of the events when they change.
const (
	// ReasonPaused: nothing new is placed in the cluster before an instant.
	ReasonPaused = "Paused"
	// ReasonOnTrial: one placement is in the cluster on trial.
	ReasonOnTrial = "OnTrial"
	// ReasonPausedForSome: nothing new is placed in the cluster for some requesters.
	ReasonPausedForSome = "PausedForSome"
	// ReasonExceededGrant: the cluster gets nothing new, from some or all others.
	ReasonExceededGrant = "ExceededGrant"
)

// LiftPausesAnnotation of a ClusterAdvertisement lifts the pauses of the cluster whenever its
// value changes: as a provider that failed, and as a requester that exceeded its grants. Any
// text serves, such as a date or a ticket; 64 bytes of it count.
const LiftPausesAnnotation = "broker.fluidos.eu/lift-pauses"

// ReasonPausesLifted is the reason of the event that tells that pauses were lifted.
const ReasonPausesLifted = "PausesLifted"

// ReasonAwaitingHoldings is why a cluster takes nothing new after the broker was
// restored from an older state: its agent has not announced yet what it holds.
const ReasonAwaitingHoldings = "AwaitingHoldings"

// ClusterAdvertisementSpec is what a cluster offers.
type ClusterAdvertisementSpec struct {
	// clusterID names the cluster: a DNS label of at most 40 characters, equal
	// to the cluster ID that Liqo uses there. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="clusterID must be a DNS label: lower-case letters, digits and '-' only, as in rome-1"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterID cannot be changed: delete this ClusterAdvertisement and create one for the other cluster"
	ClusterID string `json:"clusterID"`

	// clusterName is a name for people. It defaults to clusterID.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName,omitempty"`

	// endpointURL is the https address of the cluster's API server, as consumers
	// reach it. It carries no credential: peering needs none.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https://[^@[:space:]]+$')",message="endpointURL must be an https:// address without user name or password"
	EndpointURL string `json:"endpointURL,omitempty"`

	// topology says where the cluster is.
	// +optional
	Topology *Topology `json:"topology,omitempty"`

	// resources the cluster has and what is left of them.
	// +required
	Resources ResourceMetrics `json:"resources"`

	// overSubscription is how many times its resources the cluster offers to promise. The
	// amounts in resources are the true ones, but for available. How much of it is in
	// force is in status.
	// +optional
	OverSubscription OverSubscription `json:"overSubscription,omitempty"`

	// nodeShapes is a histogram of what is free per node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NodeShapes []NodeShape `json:"nodeShapes,omitempty"`

	// cost is the price of the capacity. A cluster without one scores 0 for cost
	// among clusters that have one.
	// +optional
	Cost *Cost `json:"cost,omitempty"`

	// labels of the cluster, which clusterSelector of a request matches.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// claims that the cluster makes of itself, by name, for example availability:
	// "99.9" or gdpr: "true". A request can require them; nobody checks them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Claims map[string]LabelValue `json:"claims,omitempty"`

	// timestamp is when the figures were taken, by the cluster's own clock. It
	// is for people: freshness is judged by when the broker received them. It
	// defaults to the time of receipt.
	// +optional
	Timestamp *metav1.Time `json:"timestamp,omitempty"`
}

// ClusterAdvertisementStatus is what the broker makes of an advertisement.
type ClusterAdvertisementStatus struct {
	// active is true while new reservations can be placed on the cluster.
	// +optional
	Active bool `json:"active,omitempty"`

	// score is the free share of CPU × 50 plus the free share of memory × 50,
	// with two decimals: 100.00 is an empty cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Score string `json:"score,omitempty"`

	// band is the score in a word: Excellent from 90, Good from 70, Moderate from 50,
	// else Limited.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Band string `json:"band,omitempty"`

	// phase is Active, Stale or Inactive.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Phase string `json:"phase,omitempty"`

	// lastReceived is when the broker last heard of the cluster, by the broker's
	// clock. It is written when something else changes too, not for every
	// advertisement.
	// +optional
	LastReceived *metav1.Time `json:"lastReceived,omitempty"`

	// reservations is the number of placements that hold capacity here.
	// +optional
	Reservations int32 `json:"reservations,omitempty"`

	// overSubscription is in force: what the cluster offers, or
	// BrokerConfig.spec.overSubscriptionCeilings where that is less. Resources that are not
	// named are promised once.
	// +optional
	OverSubscription OverSubscription `json:"overSubscription,omitempty"`

	// reliability is how the cluster kept what was promised here; absent before anything was.
	// +optional
	Reliability *Reliability `json:"reliability,omitempty"`

	// unreachable are the clusters whose API servers this one does not reach, of those that
	// it looked at: it gets nothing there.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=64
	Unreachable []UnreachableCluster `json:"unreachable,omitempty"`

	// observedGeneration is the generation that this status speaks of; 0 means
	// not seen yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Fresh, Plausible and WithinBudget, and Reliable and WithinGrants once something
	// went wrong.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UnreachableCluster is a provider whose API server does not answer another cluster.
type UnreachableCluster struct {
	// clusterID of the provider.
	// +required
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// since is when the broker was told first, by the broker's clock.
	// +required
	Since metav1.Time `json:"since"`
}

// Reliability is what became of the placements that a cluster was granted. The broker sets
// it.
type Reliability struct {
	// score is the share of promises kept, 0 to 100 with two decimals, smoothed and weighing
	// recent weeks more; empty where nothing is known of recent ones.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Score string `json:"score,omitempty"`

	// granted counts placements.
	// +optional
	Granted int64 `json:"granted,omitempty"`

	// ready counts those whose virtual node became Ready.
	// +optional
	Ready int64 `json:"ready,omitempty"`

	// refused counts those that the cluster gave up itself before that.
	// +optional
	Refused int64 `json:"refused,omitempty"`

	// unanswered counts those that its agent did not answer in time.
	// +optional
	Unanswered int64 `json:"unanswered,omitempty"`

	// neverReady counts those whose node did not become Ready in time, though that of
	// another cluster did for the same reservation.
	// +optional
	NeverReady int64 `json:"neverReady,omitempty"`

	// dropped counts those that were served and then left, because the cluster was lost or
	// gave them up.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`

	// meanTimeToReady is from grant to Ready, in whole seconds.
	// +optional
	MeanTimeToReady *metav1.Duration `json:"meanTimeToReady,omitempty"`
}

// ClusterAdvertisement is what one cluster offers to the others. The cluster's
// agent keeps it up to date through the broker, or an administrator writes it by
// hand for a cluster without an agent.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cadv,categories={broker,liqo}
// +kubebuilder:selectablefield:JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterID`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Score",type=string,JSONPath=`.status.score`
// +kubebuilder:printcolumn:name="Band",type=string,JSONPath=`.status.band`
// +kubebuilder:printcolumn:name="CPU free",type=string,JSONPath=`.spec.resources.available.cpu`
// +kubebuilder:printcolumn:name="Memory free",type=string,JSONPath=`.spec.resources.available.memory`
// +kubebuilder:printcolumn:name="GPU free",type=string,JSONPath=`.spec.resources.available.nvidia\.com/gpu`
// +kubebuilder:printcolumn:name="Reservations",type=integer,JSONPath=`.status.reservations`,priority=1
// +kubebuilder:printcolumn:name="CPU price",type=string,JSONPath=`.spec.cost.cpuCost`,priority=1
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.spec.cost.currency`,priority=1
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpointURL`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterAdvertisement struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the cluster offers.
	// +required
	Spec ClusterAdvertisementSpec `json:"spec"`

	// status is what the broker makes of it.
	// +optional
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the broker", lastTransitionTime: "1970-01-01T00:00:00Z"}, {type: "Fresh", status: "Unknown", reason: "Pending", message: "waiting for the broker", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status ClusterAdvertisementStatus `json:"status,omitempty"`
}

// ClusterAdvertisementList is a list of ClusterAdvertisements.
//
// +kubebuilder:object:root=true
type ClusterAdvertisementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterAdvertisement `json:"items"`
}
