package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phases of a ClusterAdvertisement.
const (
	// ClusterAdvertisementActive means that the cluster sends advertisements and takes new
	// reservations.
	ClusterAdvertisementActive = "Active"
	// ClusterAdvertisementStale means that the cluster's agent has sent nothing for the time in
	// BrokerConfig.spec.timeouts.silence. The cluster gets no new reservations; pods of existing
	// ones keep running.
	ClusterAdvertisementStale = "Stale"
	// ClusterAdvertisementInactive means that the cluster's agent has sent nothing for the time in
	// BrokerConfig.spec.staleThreshold. The cluster gets no new reservations.
	ClusterAdvertisementInactive = "Inactive"
	// ClusterAdvertisementDenied means that BrokerConfig.spec does not admit the cluster. It takes
	// precedence over the other phases.
	ClusterAdvertisementDenied = "Denied"
	// ClusterAdvertisementPaused means that the cluster sends advertisements in time but gets no
	// new reservations. Condition Ready says why.
	ClusterAdvertisementPaused = "Paused"
)

// Types of conditions of a ClusterAdvertisement.
const (
	// ConditionFresh is true while the cluster's advertisements arrive in time. It is also false
	// while the broker waits for the agent to report the cluster's placements, see
	// ReasonAwaitingHoldings.
	ConditionFresh = "Fresh"
	// ConditionPlausible is false while amounts that the cluster advertises contradict each other,
	// or grew more than fourfold within minutes. The broker uses them nevertheless.
	ConditionPlausible = "Plausible"
	// ConditionReliable is false while the cluster gets no new reservations from some or all
	// requesters, because earlier placements there failed.
	ConditionReliable = "Reliable"
	// ConditionWithinGrants is false while the cluster gets no new capacity from some or all other
	// clusters, because its pods used more than these clusters had granted.
	ConditionWithinGrants = "WithinGrants"
	// ConditionWithinBudget is false while decisions ignore some of the cluster's resources because
	// of BrokerConfig.spec.memberBudget, and for ten minutes after the broker refused a call of the
	// cluster because of that budget.
	ConditionWithinBudget = "WithinBudget"
	// ConditionDrained is false while reservations still have to leave a cluster that
	// BrokerConfig.spec.drains empties. It is true once none is left, and absent for other
	// clusters.
	ConditionDrained = "Drained"
)

// Reasons of the condition Drained.
const (
	// ReasonDraining means that reservations still have to leave.
	ReasonDraining = "Draining"
	// ReasonDrained means that no reservation is left.
	ReasonDrained = "Drained"
)

// ReasonOverBudget is a reason of the condition WithinBudget, and of the event that the broker
// records when the condition turns false.
const ReasonOverBudget = "OverBudget"

// ReasonFiguresIgnored is the reason of the event that the broker records when it replaces values
// of spec.resources.reserved or available that someone else wrote.
const ReasonFiguresIgnored = "FiguresIgnored"

// ReasonImplausible is a reason of the condition Plausible, and of the event that the broker
// records when the condition turns false.
const ReasonImplausible = "Implausible"

// Reasons of the conditions Reliable and WithinGrants, and of the events when they change.
const (
	// ReasonPaused means that the cluster gets no new reservations, or only those that no other cluster
	// can serve, until the time in the message.
	ReasonPaused = "Paused"
	// ReasonPausedForSome means the same for some requesters.
	ReasonPausedForSome = "PausedForSome"
	// ReasonExceededGrant means that the cluster gets no new capacity from some or all other
	// clusters, because its pods used more than was granted.
	ReasonExceededGrant = "ExceededGrant"
)

// LiftPausesAnnotation is an annotation of a ClusterAdvertisement with which an administrator ends the
// pauses of the cluster, both as a provider that failed and as a requester that exceeded its
// grants. The pauses end whenever the value changes to another text, such as a date or a ticket.
// The broker compares the first 64 bytes.
const LiftPausesAnnotation = "broker.fluidos.eu/lift-pauses"

// ForgetAnnotation of a ClusterAdvertisement asks the broker to remove a cluster that is gone for
// good. Its value is the cluster ID; broker forget sets it. If the broker refuses, the broker
// replaces the value with ForgetRefusedPrefix followed by the reason.
const (
	ForgetAnnotation    = "broker.fluidos.eu/forget"
	ForgetRefusedPrefix = "refused: "
)

// Reasons of events about the removal of a cluster.
const (
	// ReasonForgotten means that the broker has removed the cluster.
	ReasonForgotten = "Forgotten"
	// ReasonForgetRefused means that the broker did not remove the cluster, because the cluster's
	// agent can still confirm what the cluster holds.
	ReasonForgetRefused = "ForgetRefused"
	// ReasonRecreated means that someone deleted the ClusterAdvertisement of a cluster that the
	// broker knows, and that the broker created it again.
	ReasonRecreated = "Recreated"
)

// ReasonPausesLifted is the reason of the event that the broker records when LiftPausesAnnotation
// has ended the pauses of a cluster.
const ReasonPausesLifted = "PausesLifted"

// ReasonAwaitingHoldings means that the broker was restored from an older state, and that the
// cluster gets no new reservations until its agent has told the broker which placements the
// cluster holds.
const ReasonAwaitingHoldings = "AwaitingHoldings"

// ClusterAdvertisementSpec describes what a cluster offers. The broker sets it from the agent's
// advertisements. For a cluster without an agent, an administrator sets it.
type ClusterAdvertisementSpec struct {
	// clusterID is the ID of the cluster: a DNS label of at most 40 characters, equal to the
	// cluster ID of its Liqo. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="clusterID must be a DNS label: lower-case letters, digits and '-' only, as in rome-1"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterID cannot be changed: delete this ClusterAdvertisement and create one for the other cluster"
	ClusterID string `json:"clusterID"`

	// clusterName is a display name. It defaults to clusterID.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[^\x00-\x1f\x7f-\x9f]*$')`,message="clusterName must not contain control characters"
	ClusterName string `json:"clusterName,omitempty"`

	// endpointURL is the https address of the cluster's API server, as consumers reach it. It may
	// have a path, as behind a proxy, but no credentials, query or fragment.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^https://([A-Za-z0-9._-]+|[[][0-9A-Fa-f:.]+[]])(:([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?(/[A-Za-z0-9._~%/-]*)?$')",message="endpointURL must be an https:// address without user name, password, query or fragment, and with a port up to 65535, for example https://rome.example.com:6443"
	EndpointURL string `json:"endpointURL,omitempty"`

	// topology is the region and zone of the cluster.
	// +optional
	Topology *Topology `json:"topology,omitempty"`

	// resources are the cluster's capacity and how much of it is allocated, reserved and
	// available.
	// +required
	Resources ResourceMetrics `json:"resources"`

	// overSubscription is the factor by which the cluster offers to over-commit each resource. The
	// amounts in spec.resources are not multiplied by it, except available, which is computed with
	// status.overSubscription.
	// +optional
	OverSubscription OverSubscription `json:"overSubscription,omitempty"`

	// nodeShapes describes the cluster's nodes, grouped by free capacity.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NodeShapes []NodeShape `json:"nodeShapes,omitempty"`

	// elastic describes nodes that the cluster can create for a placement that does not fit on its
	// existing nodes. Only an agent can create nodes, so it has no effect in an object that a
	// person writes.
	// +optional
	Elastic *ElasticOffer `json:"elastic,omitempty"`

	// cost is the price of the capacity. If other candidates for a request have prices, a cluster
	// without prices gets the score 0 for cost.
	// +optional
	Cost *Cost `json:"cost,omitempty"`

	// labels are the labels of the cluster. The clusterSelector of a request matches against
	// them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// claims maps the names of statements that the cluster makes about itself to their values, for
	// example availability: "99.9" or gdpr: "true". A request can require them. The broker does
	// not verify them.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Claims map[string]LabelValue `json:"claims,omitempty"`

	// timestamp is when the agent measured the amounts, by the cluster's own clock. It is
	// informational: whether an advertisement is fresh depends on when the broker received it. It
	// defaults to the time of receipt.
	// +optional
	Timestamp *metav1.Time `json:"timestamp,omitempty"`
}

// ClusterAdvertisementStatus describes the state of the cluster as the broker knows it. The broker
// sets it.
type ClusterAdvertisementStatus struct {
	// active is true while the cluster can get new reservations.
	// +optional
	Active bool `json:"active,omitempty"`

	// score is 50 × the free share of CPU + 50 × the free share of memory, with two decimals. An
	// unused cluster has the score 100.00.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Score string `json:"score,omitempty"`

	// band names the range of the score: Excellent from 90, Good from 70, Moderate from 50,
	// otherwise Limited.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	Band string `json:"band,omitempty"`

	// phase is Active, Stale, Inactive, Denied or Paused. The cluster gets new reservations only
	// while it is Active; for any other phase, condition Ready says why.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Phase string `json:"phase,omitempty"`

	// lastReceived is when the broker last received something from the cluster, by the broker's
	// clock. To save writes, the broker updates it only together with another field.
	// +optional
	LastReceived *metav1.Time `json:"lastReceived,omitempty"`

	// reservations is the number of placements that hold capacity on the cluster.
	// +optional
	Reservations int32 `json:"reservations,omitempty"`

	// overSubscription is the factor in force for each resource: spec.overSubscription, but at most
	// BrokerConfig.spec.overSubscriptionCeilings. Resources that are not listed have the factor 1.
	// +optional
	OverSubscription OverSubscription `json:"overSubscription,omitempty"`

	// reliability records how many placements the cluster delivered or failed. It is absent before
	// the first placement.
	// +optional
	Reliability *Reliability `json:"reliability,omitempty"`

	// unreachable lists the providers whose API servers this cluster has probed and cannot reach.
	// The cluster gets no capacity from them.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=64
	Unreachable []UnreachableCluster `json:"unreachable,omitempty"`

	// pending is the sum of the requests of the cluster's own pods for which its scheduler finds
	// no node, as its agent last advertised. The entry pods is the number of these pods. pending
	// is absent if there are none. No decision uses it. An advertisement changes it only if an
	// amount differs by more than 2 %, or pendingSince by more than 10 s.
	// +optional
	Pending corev1.ResourceList `json:"pending,omitempty"`

	// pendingSince is the time since which the longest waiting pod of those in pending has found
	// no node, by the broker's clock. It is absent if pending is absent.
	// +optional
	PendingSince *metav1.Time `json:"pendingSince,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// broker has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready, Fresh, Plausible and WithinBudget. Reliable and WithinGrants are added
	// when they turn false for the first time. Drained exists while BrokerConfig.spec.drains
	// empties the cluster.
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

	// since is when the broker was first told that the provider is unreachable, by the broker's
	// clock.
	// +required
	Since metav1.Time `json:"since"`
}

// Reliability records the outcomes of a cluster's placements. The broker sets it.
type Reliability struct {
	// score is the percentage of placements that the cluster delivered and kept, 0 to 100 with two
	// decimals. It is smoothed, and recent weeks weigh more. It is empty without recent placements.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	Score string `json:"score,omitempty"`

	// granted is the number of placements that the cluster got.
	// +optional
	Granted int64 `json:"granted,omitempty"`

	// ready is the number of placements whose virtual node became Ready.
	// +optional
	Ready int64 `json:"ready,omitempty"`

	// refused is the number of placements that the cluster refused or gave up before their virtual
	// node was Ready.
	// +optional
	Refused int64 `json:"refused,omitempty"`

	// unanswered is the number of placements that the cluster's agent did not acknowledge or refuse
	// in time.
	// +optional
	Unanswered int64 `json:"unanswered,omitempty"`

	// neverReady is the number of placements whose virtual node did not become Ready in time,
	// although another cluster then served the same reservation with a Ready node.
	// +optional
	NeverReady int64 `json:"neverReady,omitempty"`

	// dropped is the number of placements whose virtual node was Ready and that ended early,
	// because the cluster was lost or gave them up.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`

	// meanTimeToReady is the mean time from the grant of a placement until its virtual node is
	// Ready, in whole seconds.
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

	// status describes the state of the cluster as the broker knows it.
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
