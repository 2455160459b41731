package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BrokerConfigName is the only name a BrokerConfig may have.
const BrokerConfigName = "default"

// Reasons of events about enrolment.
const (
	// ReasonEnrolmentPending is of an event on the BrokerConfig: a cluster without
	// token waits for approval.
	ReasonEnrolmentPending = "EnrolmentPending"
	// ReasonReEnrolled is of an event on a ClusterAdvertisement: a cluster that is
	// known came with a fresh token and another key.
	ReasonReEnrolled = "ReEnrolled"
)

// ScoringPreset is a named set of weights.
//
// +kubebuilder:validation:Enum=availability;balanced;multi-criteria
type ScoringPreset string

// Presets of the scoring.
const (
	// PresetAvailability weighs free resources alone: CPU 50, memory 50.
	PresetAvailability ScoringPreset = "availability"
	// PresetBalanced weighs resources 70 and cost 30, and reliability 15 beside them.
	PresetBalanced ScoringPreset = "balanced"
	// PresetMultiCriteria weighs resources 70, cost 20, latency 5, reliability 5.
	PresetMultiCriteria ScoringPreset = "multi-criteria"
)

// ScoringWeights says how much each criterion counts, in percent. They must sum
// to 100.
//
// +kubebuilder:validation:XValidation:rule="(has(self.resourceAvailability) ? self.resourceAvailability : 0) + (has(self.cost) ? self.cost : 0) + (has(self.latency) ? self.latency : 0) + (has(self.reliability) ? self.reliability : 0) == 100",message="the weights must sum to 100"
type ScoringWeights struct {
	// resourceAvailability weighs how much of the cluster is free.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ResourceAvailability int32 `json:"resourceAvailability,omitempty"`

	// cost weighs how cheap the request is there.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Cost int32 `json:"cost,omitempty"`

	// latency weighs how near the provider is to the requester.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Latency int32 `json:"latency,omitempty"`

	// reliability weighs how well the provider kept earlier reservations.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Reliability int32 `json:"reliability,omitempty"`
}

// BrokerConfigSpec tunes the broker. Everything has a default that works.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.scoringPreset) && has(self.scoringWeights))",message="set scoringPreset or scoringWeights, not both"
type BrokerConfigSpec struct {
	// scoringPreset names a set of weights. It defaults to balanced.
	// +optional
	ScoringPreset ScoringPreset `json:"scoringPreset,omitempty"`

	// scoringWeights sets the weights one by one, in place of a preset.
	// +optional
	ScoringWeights *ScoringWeights `json:"scoringWeights,omitempty"`

	// staleThreshold is how long a cluster may be silent before it is Inactive.
	// It defaults to 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="staleThreshold must be at least 1m and at most 87600h, for example 2h30m"
	StaleThreshold *metav1.Duration `json:"staleThreshold,omitempty"`

	// defaultTTL is how long a Reservation without duration is held. It defaults
	// to 1h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="defaultTTL must be at least 1m and at most 87600h, for example 2h30m"
	DefaultTTL *metav1.Duration `json:"defaultTTL,omitempty"`

	// maxDuration is the longest a reservation may ask for. There is no maximum if
	// it is unset. A reservation without duration is not bounded by it: its
	// requester renews it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="maxDuration must be at least 1m and at most 87600h, for example 2h30m"
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`

	// maxPerReservation is the most that one reservation may ask for of each
	// resource named here. Resources that are not named are not bounded.
	// +optional
	MaxPerReservation ResourceBounds `json:"maxPerReservation,omitempty"`

	// queue bounds the requests that wait for capacity, see spec.queuePolicy of a
	// request.
	// +optional
	Queue *QueueConfig `json:"queue,omitempty"`

	// preemption lets requests that wait take the place of reservations of a lower
	// priority. Without it none does.
	// +optional
	Preemption *PreemptionConfig `json:"preemption,omitempty"`

	// priorityCeilings bound the priority of clusters: a request counts with what it
	// asked for or with the ceiling, whichever is less.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=1000
	PriorityCeilings []PriorityCeiling `json:"priorityCeilings,omitempty"`

	// defaultMaxPriority is the ceiling of every cluster without one of its own. There
	// is none if it is unset.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	DefaultMaxPriority *int32 `json:"defaultMaxPriority,omitempty"`

	// admission says which clusters take part: Open, each with a valid certificate
	// (the default), or Approved, those of approvedClusters.
	// +optional
	Admission AdmissionMode `json:"admission,omitempty"`

	// approvedClusters are the clusters that may take part where admission is
	// Approved. A cluster that is listed with its key may enrol without a token.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=1000
	ApprovedClusters []ApprovedCluster `json:"approvedClusters,omitempty"`

	// deniedClusters may neither connect nor enrol, whatever else admits them.
	// Their connections are shut within two seconds; what they lend or use is kept
	// until it ends.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=40
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	DeniedClusters []string `json:"deniedClusters,omitempty"`

	// exchangeRates convert prices in other currencies, so that they are compared.
	// Without a rate to the currency that is compared, a cluster scores 0 for cost, and
	// is left out where a request has a highest price; its candidate says so.
	// +optional
	ExchangeRates *ExchangeRates `json:"exchangeRates,omitempty"`

	// headroom is the percentage of what every cluster has allocatable that is not
	// promised to new reservations, rounded down to whole units. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=90
	Headroom int32 `json:"headroom,omitempty"`

	// overSubscriptionCeilings bound how many times clusters may promise what they have,
	// whatever they offer. Without one for a resource it is promised once. What was
	// promised stands when a ceiling is lowered.
	// +optional
	OverSubscriptionCeilings OverSubscription `json:"overSubscriptionCeilings,omitempty"`

	// visibility is what requesters are told of clusters that they did not get.
	// +optional
	Visibility *Visibility `json:"visibility,omitempty"`

	// rateLimits bound what one cluster may ask of the broker.
	// +optional
	RateLimits *RateLimits `json:"rateLimits,omitempty"`

	// memberBudget bounds what one cluster may use of the broker's memory, journal and
	// connections. Its defaults are far above what an honest cluster needs.
	// +optional
	MemberBudget *MemberBudget `json:"memberBudget,omitempty"`
}

// MemberBudget bounds what one cluster may use of the broker. What exceeds it is refused
// with the figure, and condition WithinBudget of its ClusterAdvertisement says so.
type MemberBudget struct {
	// reservations of one cluster that the broker remembers, ended ones and released keys
	// included. Where there are more, the oldest of those that ended are forgotten. It
	// defaults to 10000.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=1000000
	Reservations int32 `json:"reservations,omitempty"`

	// waiting is how many requests of one cluster may wait for capacity. It defaults to a
	// quarter of queue.maxLength, and to 16 at least.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Waiting int32 `json:"waiting,omitempty"`

	// journalPerHour is how much the calls of one cluster may add to the journal: so much at
	// once, and so much in every hour. It defaults to 32Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Gi')) <= 0",message="journalPerHour must be at least 1Mi and at most 16Gi"
	JournalPerHour *resource.Quantity `json:"journalPerHour,omitempty"`

	// resourceNames is how many resources one cluster may offer beside cpu, memory and pods.
	// Those beyond are left out of decisions. It defaults to 32.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	ResourceNames int32 `json:"resourceNames,omitempty"`

	// connections is how many connections one cluster may have open. Where it opens more,
	// its oldest are closed. It defaults to 128.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=10000
	Connections int32 `json:"connections,omitempty"`
}

// ExchangeRates is a table of rates against one currency.
//
// +kubebuilder:validation:XValidation:rule="!(self.base in self.rates)",message="the base has the rate 1: leave it out of rates",fieldPath=".rates"
type ExchangeRates struct {
	// date the rates are of, as in 2026-11-20. It is shown beside what they convert.
	// +required
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}$')",message="date must be a day, for example 2026-11-20"
	Date string `json:"date"`

	// base is the ISO 4217 code of the currency of which one unit is converted.
	// +required
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z]{3}$')",message="base must be an ISO 4217 code, for example EUR"
	Base string `json:"base"`

	// rates is how much of each other currency one unit of base is, by ISO 4217 code.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Z]{3}$'))",message="a currency must be an ISO 4217 code, for example USD"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('[1-9]'))",message="a rate must be above zero"
	Rates map[string]Price `json:"rates"`
}

// CandidatesShown says what requesters are told of other candidates.
//
// +kubebuilder:validation:Enum=Full;Anonymous;Counts
type CandidatesShown string

// What requesters are told of candidates that they did not get.
const (
	// CandidatesFull shows name, scores, reason and price.
	CandidatesFull CandidatesShown = "Full"
	// CandidatesAnonymous shows the same under the names candidate-1, candidate-2 and so
	// on, and without the words that tell figures of the cluster.
	CandidatesAnonymous CandidatesShown = "Anonymous"
	// CandidatesCounts shows how many were left out for which reason, and nothing of each.
	CandidatesCounts CandidatesShown = "Counts"
)

// Visibility is what requesters are told of clusters that they did not get. Of the one
// that they got they are told everything, and objects in the broker's cluster show all.
type Visibility struct {
	// candidates is Full (the default), Anonymous or Counts.
	// +optional
	Candidates CandidatesShown `json:"candidates,omitempty"`

	// hidePrices leaves out what the request would cost there, and how it scores for
	// cost.
	// +optional
	HidePrices bool `json:"hidePrices,omitempty"`
}

// RateLimits bound the requests of each cluster; those beyond are refused with 429 and
// the time to wait.
type RateLimits struct {
	// requestsPerSecond of one cluster, over time. It defaults to 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	RequestsPerSecond int32 `json:"requestsPerSecond,omitempty"`

	// burst is how many requests of one cluster are taken at once. It defaults to 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Burst int32 `json:"burst,omitempty"`

	// inFlight is how many requests of one cluster may be under way, polls among them. It
	// defaults to 64.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=10000
	InFlight int32 `json:"inFlight,omitempty"`
}

// ResourceBounds is the most of each resource, by Kubernetes resource name.
//
// +kubebuilder:validation:MaxProperties=10
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).startsWith('-'))",message="a bound cannot be negative"
type ResourceBounds map[corev1.ResourceName]resource.Quantity

// AdmissionMode says which clusters take part.
//
// +kubebuilder:validation:Enum=Open;Approved
type AdmissionMode string

// Modes of admission.
const (
	// AdmissionOpen admits every cluster with a valid certificate.
	AdmissionOpen AdmissionMode = "Open"
	// AdmissionApproved admits the clusters of approvedClusters.
	AdmissionApproved AdmissionMode = "Approved"
)

// ApprovedCluster is a cluster that may take part.
type ApprovedCluster struct {
	// clusterID of the cluster.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterID string `json:"clusterID"`

	// keyFingerprint is the SHA-256 digest of the public key (SubjectPublicKeyInfo)
	// with which the cluster may enrol without a token, as the agent prints it and
	// as status.pendingEnrolments shows it. Without it the cluster needs a token.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	KeyFingerprint string `json:"keyFingerprint,omitempty"`
}

// PendingEnrolment is a cluster that asked for a certificate without a token.
type PendingEnrolment struct {
	// clusterID it says it is. Nothing proves it.
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// keyFingerprint of the key it asked with: compare it with what its agent
	// prints before it is approved.
	// +kubebuilder:validation:MaxLength=71
	KeyFingerprint string `json:"keyFingerprint"`

	// since is when it asked for the first time.
	Since metav1.Time `json:"since"`

	// lastAsked is when it asked last, to within ten minutes.
	LastAsked metav1.Time `json:"lastAsked"`
}

// BrokerConfigStatus says whether the broker uses the configuration.
type BrokerConfigStatus struct {
	// observedGeneration is the generation that this status speaks of; 0 means
	// not seen yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions is Ready: true when the broker decides by this configuration.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// pendingEnrolments are clusters that wait for approval, the oldest first. To
	// approve one, add its clusterID and keyFingerprint to spec.approvedClusters.
	// One that does not ask again for an hour is dropped.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PendingEnrolments []PendingEnrolment `json:"pendingEnrolments,omitempty"`
}

// BrokerConfig tunes how the broker decides. There is one, named default; without
// it the defaults hold.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=bcfg,categories={broker,liqo}
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one BrokerConfig: name it default"
// +kubebuilder:printcolumn:name="Preset",type=string,JSONPath=`.spec.scoringPreset`
// +kubebuilder:printcolumn:name="TTL",type=string,JSONPath=`.spec.defaultTTL`
// +kubebuilder:printcolumn:name="Stale after",type=string,JSONPath=`.spec.staleThreshold`
// +kubebuilder:printcolumn:name="Admission",type=string,JSONPath=`.spec.admission`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BrokerConfig struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec tunes the broker.
	// +optional
	Spec BrokerConfigSpec `json:"spec,omitempty"`

	// status says whether the broker uses it.
	// +optional
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the broker", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status BrokerConfigStatus `json:"status,omitempty"`
}

// BrokerConfigList is a list of BrokerConfigs.
//
// +kubebuilder:object:root=true
type BrokerConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BrokerConfig `json:"items"`
}
