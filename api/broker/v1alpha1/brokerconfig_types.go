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
	// ReasonEnrolmentPending is an event on the BrokerConfig: a cluster without a token waits
	// for approval.
	ReasonEnrolmentPending = "EnrolmentPending"
	// ReasonReEnrolled is an event on a ClusterAdvertisement: a known cluster enrolled again
	// with a fresh token and another key.
	ReasonReEnrolled = "ReEnrolled"
)

// ScoringPreset is a named set of weights.
//
// +kubebuilder:validation:Enum=availability;balanced;multi-criteria
type ScoringPreset string

// Values of ScoringPreset.
const (
	// PresetAvailability weighs free resources only: CPU 50, memory 50.
	PresetAvailability ScoringPreset = "availability"
	// PresetBalanced weighs resources 70, cost 30, and reliability 15 in addition.
	PresetBalanced ScoringPreset = "balanced"
	// PresetMultiCriteria weighs resources 70, cost 20, latency 5, reliability 5.
	PresetMultiCriteria ScoringPreset = "multi-criteria"
)

// ScoringWeights sets the weight of each criterion in percent. The weights must sum to 100.
//
// +kubebuilder:validation:XValidation:rule="(has(self.resourceAvailability) ? self.resourceAvailability : 0) + (has(self.cost) ? self.cost : 0) + (has(self.latency) ? self.latency : 0) + (has(self.reliability) ? self.reliability : 0) == 100",message="the weights must sum to 100"
type ScoringWeights struct {
	// resourceAvailability is the weight of the free share of the cluster. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ResourceAvailability int32 `json:"resourceAvailability,omitempty"`

	// cost is the weight of the price of the request on the cluster. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Cost int32 `json:"cost,omitempty"`

	// latency is the weight of the latency between provider and requester. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Latency int32 `json:"latency,omitempty"`

	// reliability is the weight of how well the provider delivered earlier reservations. It
	// defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Reliability int32 `json:"reliability,omitempty"`
}

// BrokerConfigSpec tunes the broker. All fields are optional and have a default that works.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.scoringPreset) && has(self.scoringWeights))",message="set scoringPreset or scoringWeights, not both"
type BrokerConfigSpec struct {
	// scoringPreset selects a set of weights. It defaults to balanced.
	// +optional
	ScoringPreset ScoringPreset `json:"scoringPreset,omitempty"`

	// scoringWeights sets each weight, in place of a preset.
	// +optional
	ScoringWeights *ScoringWeights `json:"scoringWeights,omitempty"`

	// staleThreshold is how long a cluster may be silent before it becomes Inactive. It
	// defaults to 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="staleThreshold must be at least 1m and at most 87600h, for example 2h30m"
	StaleThreshold *metav1.Duration `json:"staleThreshold,omitempty"`

	// timeouts are how long the broker waits for agents before it acts.
	// +optional
	Timeouts *Timeouts `json:"timeouts,omitempty"`

	// defaultTTL is how long a Reservation without duration is held. It defaults to 1h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="defaultTTL must be at least 1m and at most 87600h, for example 2h30m"
	DefaultTTL *metav1.Duration `json:"defaultTTL,omitempty"`

	// maxDuration is the longest duration that a reservation may request. By default there is
	// no limit. It does not apply to reservations without duration, which the requester renews.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="maxDuration must be at least 1m and at most 87600h, for example 2h30m"
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`

	// maxPerReservation limits the amount of each resource in one reservation. Resources that
	// are not listed have no limit.
	// +optional
	MaxPerReservation ResourceBounds `json:"maxPerReservation,omitempty"`

	// queue limits the queue of requests that wait for capacity, see spec.queuePolicy of a
	// request.
	// +optional
	Queue *QueueConfig `json:"queue,omitempty"`

	// preemption allows waiting requests to replace reservations of a lower priority. By
	// default there is no preemption.
	// +optional
	Preemption *PreemptionConfig `json:"preemption,omitempty"`

	// priorityLimits bound the priority of each cluster's requests. A request with a higher
	// priority gets the limit instead.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=1000
	PriorityLimits []PriorityLimit `json:"priorityLimits,omitempty"`

	// defaultMaxPriority is the limit for clusters that priorityLimits does not list. By
	// default there is none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	DefaultMaxPriority *int32 `json:"defaultMaxPriority,omitempty"`

	// admission says which clusters may take part: Open (the default) admits every cluster with
	// a valid certificate, Approved only those in approvedClusters.
	// +optional
	Admission AdmissionMode `json:"admission,omitempty"`

	// approvedClusters lists the clusters that may take part when admission is Approved. A
	// cluster listed with its key may enrol without a token.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=1000
	ApprovedClusters []ApprovedCluster `json:"approvedClusters,omitempty"`

	// deniedClusters lists clusters that may neither connect nor enrol; it overrides all other
	// rules. The broker closes their connections within two seconds. Their existing
	// reservations stay until they end.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=40
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	DeniedClusters []string `json:"deniedClusters,omitempty"`

	// exchangeRates converts prices so that clusters with different currencies can be compared.
	// A cluster whose currency has no rate scores 0 for cost, and is left out when a request
	// has a maximum price; its candidate entry says so.
	// +optional
	ExchangeRates *ExchangeRates `json:"exchangeRates,omitempty"`

	// headroom is the percentage of every cluster's allocatable amounts that new reservations
	// cannot use, rounded down to whole units. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=90
	Headroom int32 `json:"headroom,omitempty"`

	// overSubscriptionCeilings limits the over-subscription of every cluster. Resources without
	// a ceiling are not over-subscribed. Lowering a ceiling does not affect existing
	// reservations.
	// +optional
	OverSubscriptionCeilings OverSubscription `json:"overSubscriptionCeilings,omitempty"`

	// visibility limits what requesters see of clusters that were not chosen.
	// +optional
	Visibility *Visibility `json:"visibility,omitempty"`

	// rateLimits limits the rate of each cluster's requests to the broker.
	// +optional
	RateLimits *RateLimits `json:"rateLimits,omitempty"`

	// memberBudget limits how much of the broker's memory, journal and connections one cluster
	// may use. The defaults are far above the needs of an honest cluster.
	// +optional
	MemberBudget *MemberBudget `json:"memberBudget,omitempty"`
}

// Timeouts are how long the broker waits for agents.
//
// +kubebuilder:validation:XValidation:rule="[has(self.healing) ? self.healing : '0s', has(self.silence) ? self.silence : '0s'].exists(d, !d.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$')) || duration(has(self.healing) ? self.healing : (has(self.silence) ? self.silence : '90s')) >= duration(has(self.silence) ? self.silence : '90s')",message="healing must be at least silence (90s by default): reservations move only from a provider that is silent"
type Timeouts struct {
	// acknowledgement is how long a provider may take to accept a placement. After it the next
	// provider is tried. It defaults to 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('5s') && duration(self) <= duration('10m')",message="acknowledgement must be at least 5s and at most 10m, for example 10s"
	Acknowledgement *metav1.Duration `json:"acknowledgement,omitempty"`

	// readiness is how long the virtual node may take to become Ready after the provider's
	// acknowledgement. After it the next provider is tried. It defaults to 2m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('30s') && duration(self) <= duration('1h')",message="readiness must be at least 30s and at most 1h, for example 5m"
	Readiness *metav1.Duration `json:"readiness,omitempty"`

	// network is how long the virtual node may take to become Ready once only the network between
	// the clusters is missing, for example a load balancer or a tunnel. It replaces readiness
	// then, except on a provider that failed the requester recently. It defaults to 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('30s') && duration(self) <= duration('1h')",message="network must be at least 30s and at most 1h, for example 10m"
	Network *metav1.Duration `json:"network,omitempty"`

	// silence is how long an agent may be silent before its cluster is Stale and gets no new
	// reservations. Agents advertise three times in this time. It defaults to 90s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('15s') && duration(self) <= duration('1h')",message="silence must be at least 15s and at most 1h, for example 90s"
	Silence *metav1.Duration `json:"silence,omitempty"`

	// healing is how long a provider may be silent before its reservations move to other
	// providers. It defaults to silence, or to 90s if that is longer.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('15s') && duration(self) <= duration('24h')",message="healing must be at least 15s and at most 24h, for example 10m"
	Healing *metav1.Duration `json:"healing,omitempty"`

	// notReady is how long a virtual node that was Ready may be NotReady before its reservation
	// moves to another provider, unless the reservation's healing is Wait. It is not healing,
	// because the provider still answers: often the node comes back before Kubernetes evicts its
	// pods, which is after 5m. It defaults to 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('30s') && duration(self) <= duration('24h')",message="notReady must be at least 30s and at most 24h, for example 5m"
	NotReady *metav1.Duration `json:"notReady,omitempty"`
}

// MemberBudget limits one cluster's use of the broker. The broker refuses calls beyond a limit
// and names the limit. Condition WithinBudget of the cluster's ClusterAdvertisement then turns
// false.
type MemberBudget struct {
	// reservations is how many reservations of one cluster the broker remembers, including
	// ended ones and released keys. Beyond it the broker forgets the oldest ended ones. It
	// defaults to 10000.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=1000000
	Reservations int32 `json:"reservations,omitempty"`

	// waiting is how many requests of one cluster may wait in the queue. It defaults to a
	// quarter of queue.maxLength, but at least 16.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Waiting int32 `json:"waiting,omitempty"`

	// journalPerHour is how many bytes one cluster's calls may add to the journal per hour, and
	// in one burst. It defaults to 32Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(string(self)) <= 64 && !string(self).matches('[eE].?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Gi')) <= 0",message="journalPerHour must be at least 1Mi and at most 16Gi, for example 64Mi"
	JournalPerHour *resource.Quantity `json:"journalPerHour,omitempty"`

	// resourceNames is how many resources one cluster may offer besides cpu, memory and pods.
	// Decisions ignore further ones. It defaults to 32.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	ResourceNames int32 `json:"resourceNames,omitempty"`

	// connections is how many connections one cluster may have open. Beyond it the broker
	// closes the cluster's oldest ones. It defaults to 128.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=10000
	Connections int32 `json:"connections,omitempty"`
}

// ExchangeRates is a table of exchange rates against one currency.
//
// +kubebuilder:validation:XValidation:rule="!(self.base in self.rates)",message="the base has the rate 1: leave it out of rates",fieldPath=".rates"
type ExchangeRates struct {
	// date is the day of the rates, for example 2026-11-20. The broker shows it next to
	// converted prices.
	// +required
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}$')",message="date must be a day, for example 2026-11-20"
	Date string `json:"date"`

	// base is the ISO 4217 code of the base currency.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z]{3}$')",message="base must be an ISO 4217 code, for example EUR"
	Base string `json:"base"`

	// rates maps ISO 4217 codes to the amount of that currency that one unit of base buys.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[A-Z]{3}$'))",message="a currency must be an ISO 4217 code, for example USD"
	// +kubebuilder:validation:XValidation:rule="self.all(k, self[k].matches('[1-9]'))",message="a rate must be above zero"
	Rates map[string]Price `json:"rates"`
}

// CandidatesShown says what requesters see of candidates that were not chosen.
//
// +kubebuilder:validation:Enum=Full;Anonymous;Counts
type CandidatesShown string

// Values of CandidatesShown.
const (
	// CandidatesFull shows name, scores, reason and price.
	CandidatesFull CandidatesShown = "Full"
	// CandidatesAnonymous shows the same under the names candidate-1, candidate-2 and so on,
	// without messages that contain a cluster's figures.
	CandidatesAnonymous CandidatesShown = "Anonymous"
	// CandidatesCounts shows only how many candidates were rejected for each reason.
	CandidatesCounts CandidatesShown = "Counts"
)

// Visibility limits what requesters see of clusters that were not chosen. They see everything
// about the chosen one. Objects in the broker cluster always show everything.
type Visibility struct {
	// candidates is Full (the default), Anonymous or Counts.
	// +optional
	Candidates CandidatesShown `json:"candidates,omitempty"`

	// hidePrices hides the price of the request on these clusters and their score for cost.
	// +optional
	HidePrices bool `json:"hidePrices,omitempty"`
}

// RateLimits limits the rate of each cluster's requests. The broker answers requests beyond a
// limit with 429 and a Retry-After header.
type RateLimits struct {
	// requestsPerSecond is the average rate of one cluster's requests. It defaults to 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	RequestsPerSecond int32 `json:"requestsPerSecond,omitempty"`

	// burst is how many requests one cluster may send at once. It defaults to 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Burst int32 `json:"burst,omitempty"`

	// inFlight is how many requests of one cluster may be in progress, including long polls. It
	// defaults to 64.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=10000
	InFlight int32 `json:"inFlight,omitempty"`
}

// ResourceBounds maps resource names to maximum amounts.
//
// +kubebuilder:validation:MaxProperties=10
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).startsWith('-'))",message="a bound cannot be negative"
type ResourceBounds map[corev1.ResourceName]resource.Quantity

// AdmissionMode says which clusters may take part.
//
// +kubebuilder:validation:Enum=Open;Approved
type AdmissionMode string

// Values of AdmissionMode.
const (
	// AdmissionOpen admits every cluster with a valid certificate.
	AdmissionOpen AdmissionMode = "Open"
	// AdmissionApproved admits only the clusters in approvedClusters.
	AdmissionApproved AdmissionMode = "Approved"
)

// ApprovedCluster is a cluster that may take part.
type ApprovedCluster struct {
	// clusterID is the ID of the cluster.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterID string `json:"clusterID"`

	// keyFingerprint is the SHA-256 digest of the public key (SubjectPublicKeyInfo) with which
	// the cluster may enrol without a token. The agent logs it, and status.pendingEnrolments
	// shows it. Without it the cluster needs a token.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	KeyFingerprint string `json:"keyFingerprint,omitempty"`
}

// PendingEnrolment is a cluster that requested a certificate without a token.
type PendingEnrolment struct {
	// clusterID is the ID that the cluster claims. It is not verified.
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// keyFingerprint is the fingerprint of the key in the request. Before you approve the
	// cluster, compare it with the one that its agent logs.
	// +kubebuilder:validation:MaxLength=71
	KeyFingerprint string `json:"keyFingerprint"`

	// since is when the cluster first asked.
	Since metav1.Time `json:"since"`

	// lastAsked is when the cluster last asked, to within ten minutes.
	LastAsked metav1.Time `json:"lastAsked"`
}

// BrokerConfigStatus describes whether the configuration is in force. The broker sets it.
type BrokerConfigStatus struct {
	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// broker has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions is Ready: true when the broker uses this configuration. When the spec is
	// refused, Ready is false and its message says which configuration is in force.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// pendingEnrolments lists clusters that wait for approval, oldest first. To approve one,
	// add its clusterID and keyFingerprint to spec.approvedClusters. The broker drops an entry
	// when the cluster has not asked for an hour.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PendingEnrolments []PendingEnrolment `json:"pendingEnrolments,omitempty"`
}

// BrokerConfig tunes the broker's decisions and limits. There is at most one, named default.
// Without it the defaults apply.
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

	// status describes whether the configuration is in force.
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
