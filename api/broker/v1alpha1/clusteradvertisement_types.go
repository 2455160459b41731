package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phases of a ClusterAdvertisement.
const (
	// ClusterAdvertisementActive means that the cluster sends advertisements and takes new
	// reservations.
	ClusterAdvertisementActive = "Active"
	// ClusterAdvertisementStale means that the agent was silent for
	// BrokerConfig.spec.timeouts.silence. The cluster gets nothing new; existing reservations
	// keep running.
	ClusterAdvertisementStale = "Stale"
	// ClusterAdvertisementInactive means that the cluster was silent for
	// BrokerConfig.spec.staleThreshold.
	ClusterAdvertisementInactive = "Inactive"
	// ClusterAdvertisementDenied means that BrokerConfig shuts the cluster out. It takes
	// precedence over the other phases.
	ClusterAdvertisementDenied = "Denied"
	// ClusterAdvertisementPaused means that the cluster sends advertisements but gets nothing
	// new, for the reason of condition Ready.
	ClusterAdvertisementPaused = "Paused"
)

// Types of conditions of a ClusterAdvertisement.
const (
	// ConditionFresh is true while the cluster's advertisements arrive in time. ConditionReady
	// is true under the same condition, unless the cluster's operator has paused lending.
	ConditionFresh = "Fresh"
	// ConditionPlausible is false while amounts of the cluster cannot be right, or grew more
	// than fourfold within minutes. The broker uses them nevertheless.
	ConditionPlausible = "Plausible"
	// ConditionReliable is false while the cluster gets nothing new from some or all requesters
	// because it failed to deliver.
	ConditionReliable = "Reliable"
	// ConditionWithinGrants is false while some or all other clusters lend the cluster nothing
	// new because it used more than they granted.
	ConditionWithinGrants = "WithinGrants"
	// ConditionWithinBudget is false for ten minutes after the broker refused a call of the
	// cluster because of its budget, and while decisions ignore some of its resources.
	ConditionWithinBudget = "WithinBudget"
)

// ReasonOverBudget is a reason of the condition WithinBudget, and of the event when it turns
// false.
const ReasonOverBudget = "OverBudget"

// ReasonFiguresIgnored is the reason of an event: another writer than the broker changed
// spec.resources.reserved or available.
const ReasonFiguresIgnored = "FiguresIgnored"

// ReasonImplausible is a reason of the condition Plausible, and of the event when it turns
// false.
const ReasonImplausible = "Implausible"

// Reasons of the conditions Reliable and WithinGrants, and of the events when they change.
const (
	// ReasonPaused means that the cluster gets nothing new until a certain time.
	ReasonPaused = "Paused"
	// ReasonOnTrial means that the cluster has one placement on trial.
	ReasonOnTrial = "OnTrial"
	// ReasonPausedForSome means that the cluster gets nothing new from some requesters.
	ReasonPausedForSome = "PausedForSome"
	// ReasonExceededGrant means that some or all other clusters lend the cluster nothing new.
	ReasonExceededGrant = "ExceededGrant"
)

// LiftPausesAnnotation of a ClusterAdvertisement lifts the cluster's pauses, as a provider that
// failed and as a requester that exceeded its grants, whenever its value changes. An operator
// sets it to any text, such as a date or a ticket. The broker compares the first 64 bytes.
const LiftPausesAnnotation = "broker.fluidos.eu/lift-pauses"

// ForgetAnnotation of a ClusterAdvertisement asks the broker to remove a cluster that is gone for
// good. Its value is the cluster ID; broker forget sets it. If the broker refuses, it replaces the
// value with ForgetRefusedPrefix and the reason.
const (
	ForgetAnnotation    = "broker.fluidos.eu/forget"
	ForgetRefusedPrefix = "refused: "
)

// Reasons of events about a cluster that an operator removes.
const (
	// ReasonForgotten means that the broker has removed the cluster.
	ReasonForgotten = "Forgotten"
	// ReasonForgetRefused means that the cluster's agent can still confirm what it holds.
	ReasonForgetRefused = "ForgetRefused"
	// ReasonRecreated means that someone deleted the object of a cluster that the broker knows.
	ReasonRecreated = "Recreated"
)

// ReasonPausesLifted is the reason of the event that reports lifted pauses.
const ReasonPausesLifted = "PausesLifted"

// ReasonAwaitingHoldings means that the cluster gets nothing new after the broker was restored
// from an older state, because the cluster's agent has not announced its holdings yet.
const ReasonAwaitingHoldings = "AwaitingHoldings"

// ClusterAdvertisementSpec describes what a cluster offers. The broker sets it from the agent's
// advertisements. For a cluster without an agent, an administrator sets it.
type ClusterAdvertisementSpec struct {
	// clusterID is the ID of the cluster: a DNS label of at most 40 characters, equal to Liqo's
	// cluster ID there. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="clusterID must be a DNS label: lower-case letters, digits and '-' only, as in rome-1"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterID cannot be changed: delete this ClusterAdvertisement and create one for the other cluster"
	ClusterID string `json:"clusterID"`

	// clusterName is a display name. It defaults to clusterID.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName,omitempty"`

	// endpointURL is the https address of the cluster's API server, as consumers reach it. It
	// contains no credentials; peering needs none.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https://[^@[:space:]]+$')",message="endpointURL must be an https:// address without user name or password"
	EndpointURL string `json:"endpointURL,omitempty"`

	// topology is the region and zone of the cluster.
	// +optional
	Topology *Topology `json:"topology,omitempty"`

	// resources are the cluster's capacity and how much of it is allocated, reserved and
	// available.
	// +required
	Resources ResourceMetrics `json:"resources"`

	// overSubscription is the factor by which the cluster offers to over-commit each resource.
	// Of the amounts in resources only available includes it. The factor in force is in status.
	// +optional
	OverSubscription OverSubscription `json:"overSubscription,omitempty"`

	// nodeShapes groups nodes by free capacity.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NodeShapes []NodeShape `json:"nodeShapes,omitempty"`

	// cost is the price of the capacity. A cluster without prices scores 0 for cost when others
	// have prices.
	// +optional
	Cost *Cost `json:"cost,omitempty"`

	// labels are the labels of the cluster. The clusterSelector of a request matches against
	// them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// claims are statements of the cluster about itself by name, for example availability:
	// "99.9" or gdpr: "true". A request can require them. The broker does not verify them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Claims map[string]LabelValue `json:"claims,omitempty"`

	// timestamp is when the amounts were counted, by the cluster's own clock. It is
	// informational: freshness depends on when the broker received them. It defaults to the
	// time of receipt.
	// +optional
	Timestamp *metav1.Time `json:"timestamp,omitempty"`
}

// ClusterAdvertisementStatus describes how the broker sees the cluster. The broker sets it.
type ClusterAdvertisementStatus struct {
	// active is true while the cluster can get new reservations.
	// +optional
	Active bool `json:"active,omitempty"`

	// score is the free share of CPU × 50 plus the free share of memory × 50, with two
	// decimals. An empty cluster has 100.00.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Score string `json:"score,omitempty"`

	// band names the range of the score: Excellent from 90, Good from 70, Moderate from 50,
	// otherwise Limited.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Band string `json:"band,omitempty"`

	// phase is Active, Stale, Inactive, Denied or Paused. The cluster gets new reservations only
	// while it is Active; condition Ready explains the others.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Phase string `json:"phase,omitempty"`

	// lastReceived is when the broker last received something from the cluster, by the broker's
	// clock. The broker updates it only together with another field.
	// +optional
	LastReceived *metav1.Time `json:"lastReceived,omitempty"`

	// reservations is the number of placements that hold capacity on the cluster.
	// +optional
	Reservations int32 `json:"reservations,omitempty"`

	// overSubscription is the factor in force: what the cluster offers, but at most
	// BrokerConfig.spec.overSubscriptionCeilings. Resources that are not listed have the factor
	// 1.
	// +optional
	OverSubscription OverSubscription `json:"overSubscription,omitempty"`

	// reliability records how well the cluster delivered its placements. It is absent before
	// the first placement.
	// +optional
	Reliability *Reliability `json:"reliability,omitempty"`

	// unreachable lists the providers whose API servers this cluster cannot reach, among those
	// that it has probed. It gets no capacity there.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=64
	Unreachable []UnreachableCluster `json:"unreachable,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// broker has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Fresh, Plausible and WithinBudget, and after the first problem
	// Reliable and WithinGrants.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// UnreachableCluster is a provider whose API server another cluster cannot reach.
type UnreachableCluster struct {
	// clusterID is the ID of the provider.
	// +required
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// since is when the broker first received the report, by the broker's clock.
	// +required
	Since metav1.Time `json:"since"`
}

// Reliability records the outcomes of a cluster's placements. The broker sets it.
type Reliability struct {
	// score is the share of kept promises, 0 to 100 with two decimals, smoothed, with recent
	// weeks weighing more. It is empty without recent outcomes.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Score string `json:"score,omitempty"`

	// granted is the number of placements.
	// +optional
	Granted int64 `json:"granted,omitempty"`

	// ready is the number of placements whose virtual node became Ready.
	// +optional
	Ready int64 `json:"ready,omitempty"`

	// refused is the number of placements that the cluster gave up before they were Ready.
	// +optional
	Refused int64 `json:"refused,omitempty"`

	// unanswered is the number of placements that its agent did not answer in time.
	// +optional
	Unanswered int64 `json:"unanswered,omitempty"`

	// neverReady is the number of placements whose node was not Ready in time, although another
	// cluster's node was, for the same reservation.
	// +optional
	NeverReady int64 `json:"neverReady,omitempty"`

	// dropped is the number of placements that were Ready and ended early, because the cluster
	// was lost or gave them up.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`

	// meanTimeToReady is the mean time from grant to Ready, in whole seconds.
	// +optional
	MeanTimeToReady *metav1.Duration `json:"meanTimeToReady,omitempty"`
}

// ClusterAdvertisement shows what one cluster offers to the others. The broker keeps it up to
// date from the agent's advertisements. An administrator creates one for a cluster without an
// agent.
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
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Reservations",type=integer,JSONPath=`.status.reservations`,priority=1
// +kubebuilder:printcolumn:name="CPU price",type=string,JSONPath=`.spec.cost.cpuCost`,priority=1
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.spec.cost.currency`,priority=1
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.endpointURL`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterAdvertisement struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes what the cluster offers.
	// +required
	Spec ClusterAdvertisementSpec `json:"spec"`

	// status describes how the broker sees the cluster.
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
