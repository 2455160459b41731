package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BrokerConfigName is the name that the only BrokerConfig of a broker must have.
const BrokerConfigName = "default"

// Reasons of events about enrolment.
const (
	// ReasonEnrolmentPending is the reason of an event on the BrokerConfig: a cluster without a
	// token has asked for a certificate and waits for approval.
	ReasonEnrolmentPending = "EnrolmentPending"
	// ReasonReEnrolled is the reason of an event on a ClusterAdvertisement: a known cluster has
	// enrolled again, with a new token and another key.
	ReasonReEnrolled = "ReEnrolled"
)

// NotifyTestAnnotation on the BrokerConfig makes the broker send an event of the type
// notification.test to a channel. Its value is the name of the channel, a slash, and a text that
// differs for each test.
const NotifyTestAnnotation = "broker.fluidos.eu/notify-test"

// ConditionNotificationTested shows the result of the last test of a channel.
const ConditionNotificationTested = "NotificationTested"

// ScoringPreset is the name of a set of weights for the scores of candidates.
//
// +kubebuilder:validation:Enum=availability;balanced;multi-criteria
type ScoringPreset string

// Values of ScoringPreset.
const (
	// PresetAvailability gives resource availability the whole weight, 100: CPU and memory count
	// half each.
	PresetAvailability ScoringPreset = "availability"
	// PresetBalanced gives resource availability the weight 70, cost 30 and reliability 15. A score
	// is divided by the sum of these weights.
	PresetBalanced ScoringPreset = "balanced"
	// PresetMultiCriteria gives resource availability the weight 70, cost 20, latency 5 and
	// reliability 5.
	PresetMultiCriteria ScoringPreset = "multi-criteria"
)

// ScoringWeights sets the weight of each criterion in percent. The weights must sum to 100.
//
// +kubebuilder:validation:XValidation:rule="(has(self.resourceAvailability) ? self.resourceAvailability : 0) + (has(self.cost) ? self.cost : 0) + (has(self.latency) ? self.latency : 0) + (has(self.reliability) ? self.reliability : 0) == 100",message="the weights must sum to 100"
type ScoringWeights struct {
	// resourceAvailability is the weight of the share of CPU and memory that is free in the
	// cluster. It defaults to 0.
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

// BrokerConfigSpec configures the broker. All fields are optional; their defaults suit most
// installations.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.scoringPreset) && has(self.scoringWeights))",message="set scoringPreset or scoringWeights, not both"
type BrokerConfigSpec struct {
	// scoringPreset selects a predefined set of weights. It defaults to balanced.
	// +optional
	ScoringPreset ScoringPreset `json:"scoringPreset,omitempty"`

	// scoringWeights sets the weights one by one. It replaces scoringPreset.
	// +optional
	ScoringWeights *ScoringWeights `json:"scoringWeights,omitempty"`

	// staleThreshold is how long a cluster may send nothing before it becomes Inactive. It defaults
	// to 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="staleThreshold must be at least 1m and at most 87600h, for example 2h30m"
	StaleThreshold *metav1.Duration `json:"staleThreshold,omitempty"`

	// timeouts are the times after which the broker stops waiting for agents and acts.
	// +optional
	Timeouts *Timeouts `json:"timeouts,omitempty"`

	// defaultTTL is how long a Reservation without duration is held. It defaults to 1h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="defaultTTL must be at least 1m and at most 87600h, for example 2h30m"
	DefaultTTL *metav1.Duration `json:"defaultTTL,omitempty"`

	// maxDuration is the longest duration that a reservation may request. By default there is no
	// limit. It does not apply to ResourceRequests without duration, whose reservations the agent
	// renews.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="maxDuration must be at least 1m and at most 87600h, for example 2h30m"
	MaxDuration *metav1.Duration `json:"maxDuration,omitempty"`

	// idle bounds spec.idle of all reservations. A reservation that is idle for longer is handled as
	// idle says, even if it has no spec.idle or one with a longer time. By default only spec.idle of
	// each reservation applies.
	// +optional
	Idle *Idle `json:"idle,omitempty"`

	// maxQuoteHold is the longest time for which a quote may hold capacity without a reservation. It
	// defaults to 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="maxQuoteHold must be at least 1s and at most 1h, for example 5m"
	MaxQuoteHold *metav1.Duration `json:"maxQuoteHold,omitempty"`

	// maxPerReservation limits the amount of each resource in one reservation. Resources that
	// are not listed have no limit.
	// +optional
	MaxPerReservation ResourceBounds `json:"maxPerReservation,omitempty"`

	// queue limits the queue of requests that wait for capacity because their queuePolicy is Queue.
	// +optional
	Queue *QueueConfig `json:"queue,omitempty"`

	// preemption says whether waiting requests may replace reservations of a lower priority. By
	// default they may not.
	// +optional
	Preemption *PreemptionConfig `json:"preemption,omitempty"`

	// priorityLimits set the highest priority for the requests of single clusters. A request for
	// more gets the limit as its priority.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=1000
	PriorityLimits []PriorityLimit `json:"priorityLimits,omitempty"`

	// defaultMaxPriority is the highest priority for the requests of clusters that priorityLimits
	// does not list. By default there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	DefaultMaxPriority *int32 `json:"defaultMaxPriority,omitempty"`

	// admission says which clusters may take part: Open (the default) admits every cluster with a
	// valid certificate, Approved only the clusters in approvedClusters.
	// +optional
	Admission AdmissionMode `json:"admission,omitempty"`

	// approvedClusters lists the clusters that may take part when admission is Approved. A cluster
	// that is listed with keyFingerprint may enrol without a token.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=1000
	ApprovedClusters []ApprovedCluster `json:"approvedClusters,omitempty"`

	// deniedClusters lists clusters that may neither connect nor enrol; it overrides all other
	// rules. The broker closes their connections within two seconds. Reservations that such a
	// cluster already uses or provides stay until they end.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=40
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a cluster ID is a DNS label: lower-case letters, digits and '-' only"
	DeniedClusters []string `json:"deniedClusters,omitempty"`

	// drains lists clusters that get no new reservations, for example before maintenance. Their
	// reservations move to other clusters, unless cordonOnly is set. Remove an entry to let the
	// cluster provide again.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	// +kubebuilder:validation:MaxItems=256
	Drains []ClusterDrain `json:"drains,omitempty"`

	// exchangeRates is used to compare prices in different currencies. A cluster whose currency
	// has no rate gets the score 0 for cost, and is rejected if the request has a maximum price;
	// the request's status.candidates shows the reason.
	// +optional
	ExchangeRates *ExchangeRates `json:"exchangeRates,omitempty"`

	// headroom is how much of each cluster's allocatable amounts new reservations must leave free,
	// in percent, rounded down to whole units. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=90
	Headroom int32 `json:"headroom,omitempty"`

	// overSubscriptionCeilings are the highest factors by which resources of any cluster may be
	// over-committed. Resources without a ceiling are not over-committed. Existing reservations
	// stay when a ceiling is lowered.
	// +optional
	OverSubscriptionCeilings OverSubscription `json:"overSubscriptionCeilings,omitempty"`

	// visibility limits what requesters see of the candidates that were not chosen.
	// +optional
	Visibility *Visibility `json:"visibility,omitempty"`

	// rateLimits limits how many API requests each cluster may send to the broker.
	// +optional
	RateLimits *RateLimits `json:"rateLimits,omitempty"`

	// memberBudget limits how much of the broker's memory, journal and connections one cluster
	// may use. The defaults are far above the needs of an honest cluster.
	// +optional
	MemberBudget *MemberBudget `json:"memberBudget,omitempty"`

	// accounts says how long the broker keeps its accounts, and with which list price the accounts
	// compare costs.
	// +optional
	Accounts *Accounts `json:"accounts,omitempty"`

	// notifications are channels to which the broker sends events, for example when a reservation
	// moves. Each channel gets each of its events at least once, in order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Notifications []NotificationChannel `json:"notifications,omitempty"`
}

// NotificationChannel selects events and says where they are sent.
//
// +kubebuilder:validation:XValidation:rule="(has(self.cloudEvents) ? 1 : 0) + (has(self.slack) ? 1 : 0) + (has(self.email) ? 1 : 0) + (has(self.files) ? 1 : 0) == 1",message="set exactly one of cloudEvents, slack, email and files"
// +kubebuilder:validation:XValidation:rule="!has(self.groupWait) || has(self.slack) || has(self.email)",message="only messages for people wait for more events: leave groupWait out, or use slack or email",fieldPath=".groupWait"
type NotificationChannel struct {
	// name identifies the channel, also in metrics. A channel continues where the channel of the same
	// name has stopped. A new one begins with the next event.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a channel's name is a DNS label: lower-case letters, digits and '-' only"
	Name string `json:"name"`

	// events are types of events, for example reservation.moved, or patterns such as reservation.*
	// or *. No pattern selects journal.record, the records of the journal for programs.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Events []string `json:"events,omitempty"`

	// requesters limits the channel to the reservations of some clusters. By default it gets the
	// events of all reservations, and those of clusters and of the broker.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=40
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a cluster ID is a DNS label: lower-case letters, digits and '-' only"
	Requesters []string `json:"requesters,omitempty"`

	// groupWait is how long a message waits for further events after its first one. It defaults to
	// 30s, and is allowed for slack and email.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="groupWait must be at least 0s and at most 24h, for example 30s"
	GroupWait *metav1.Duration `json:"groupWait,omitempty"`

	// cloudEvents sends each event as a CloudEvent 1.0 over HTTPS, signed as Standard Webhooks say.
	// +optional
	CloudEvents *CloudEventsTarget `json:"cloudEvents,omitempty"`

	// slack sends messages to an incoming webhook of Slack, or of a chat that accepts the same.
	// +optional
	Slack *SlackTarget `json:"slack,omitempty"`

	// email sends messages by e-mail.
	// +optional
	Email *EmailTarget `json:"email,omitempty"`

	// files writes every record of the journal to compressed files on the volume that the chart's value
	// export.enabled mounts. events must be [journal.record].
	// +optional
	Files *FilesTarget `json:"files,omitempty"`
}

// FilesTarget says how records are kept in files.
type FilesTarget struct {
	// keepDays is for how many days complete files are kept. By default the broker deletes none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	KeepDays int32 `json:"keepDays,omitempty"`
}

// CloudEventsTarget is a receiver of CloudEvents.
type CloudEventsTarget struct {
	// url is the https address of the receiver. Addresses of the broker's own machine, link-local
	// addresses and metadata services are refused, and redirects are not followed.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://')",message="url must begin with https://"
	URL string `json:"url"`

	// secretRef names the Secret with the key that signs the events: whsec_ followed by at least 24
	// bytes in base64. Several keys, separated by spaces, all sign. If the Secret has the key
	// ca.crt, these CA certificates are trusted, too.
	// +required
	SecretRef SecretKeyRef `json:"secretRef"`
}

// SlackTarget is an incoming webhook.
type SlackTarget struct {
	// secretRef names the Secret with the URL of the incoming webhook. If the Secret has the key
	// ca.crt, these CA certificates are trusted, too.
	// +required
	SecretRef SecretKeyRef `json:"secretRef"`
}

// EmailTarget says how e-mail is sent.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || self.tls != 'None' || !has(self.secretRef)",message="credentials are not sent without TLS: leave secretRef out, or use StartTLS or Implicit",fieldPath=".secretRef"
type EmailTarget struct {
	// from is the sender's address, for example broker@example.com.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=254
	From string `json:"from"`

	// to are the receivers' addresses.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=254
	To []string `json:"to,omitempty"`

	// server is the mail server as host:port, for example mail.example.com:587.
	// +required
	// +kubebuilder:validation:MaxLength=260
	// +kubebuilder:validation:XValidation:rule="self.matches('^.+:[0-9]{1,5}$')",message="server must be host:port, for example mail.example.com:587"
	Server string `json:"server"`

	// tls says how the connection is encrypted: StartTLS, Implicit (usually port 465) or None. It
	// defaults to Implicit for port 465, and to StartTLS for other ports.
	// +optional
	// +kubebuilder:validation:Enum=StartTLS;Implicit;None
	TLS string `json:"tls,omitempty"`

	// secretRef names the Secret with the keys username and password, and optionally ca.crt with CA
	// certificates that are trusted, too. By default the broker does not authenticate.
	// +optional
	SecretRef *SecretRef `json:"secretRef,omitempty"`
}

// SecretRef names a Secret in the broker's namespace.
type SecretRef struct {
	// name is the name of the Secret. The broker must be allowed to read it, see the chart's value
	// notifications.secrets.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SecretKeyRef names a key of a Secret in the broker's namespace.
type SecretKeyRef struct {
	// name is the name of the Secret. The broker must be allowed to read it, see the chart's value
	// notifications.secrets.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key is the key in the Secret. It defaults to secret for cloudEvents, and to url for slack.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// Accounts are settings of the broker's accounts. When a day or a month has ended, the broker deletes
// the accounts that are older than the fields days and months allow. It keeps the accounts of hours
// for 48 hours.
type Accounts struct {
	// days is the number of days for which the broker keeps the accounts of each day. It defaults
	// to 35.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=400
	Days int32 `json:"days,omitempty"`

	// months is the number of months for which the broker keeps the accounts of each month. It
	// defaults to 25.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=120
	Months int32 `json:"months,omitempty"`

	// listPrice is what capacity costs elsewhere, for example in a public cloud. From the time at
	// which it is set, the accounts compare it with what is paid in the same currency. It affects
	// no decision. Its egressCost is not used.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.currency)",message="listPrice needs a currency, for example EUR"
	ListPrice *Cost `json:"listPrice,omitempty"`
}

// Timeouts are the times after which the broker stops waiting for agents.
//
// +kubebuilder:validation:XValidation:rule="[has(self.healing) ? self.healing : '0s', has(self.silence) ? self.silence : '0s'].exists(d, !d.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$')) || duration(has(self.healing) ? self.healing : (has(self.silence) ? self.silence : '90s')) >= duration(has(self.silence) ? self.silence : '90s')",message="healing must be at least silence (90s by default): reservations move only from a provider that is silent"
type Timeouts struct {
	// acknowledgement is how long a provider's agent may take to accept a placement. After that the
	// broker tries the next provider. It defaults to 10s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('5s') && duration(self) <= duration('10m')",message="acknowledgement must be at least 5s and at most 10m, for example 10s"
	Acknowledgement *metav1.Duration `json:"acknowledgement,omitempty"`

	// readiness is how long the virtual node may take to become Ready after the provider's
	// acknowledgement. After that the broker tries the next provider. It defaults to 2m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('30s') && duration(self) <= duration('1h')",message="readiness must be at least 30s and at most 1h, for example 5m"
	Readiness *metav1.Duration `json:"readiness,omitempty"`

	// network is how long the virtual node may take to become Ready if it waits only for the
	// network between the clusters, for example for a load balancer or a tunnel. It applies instead
	// of readiness, except on a provider that failed the requester recently. It defaults to 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('30s') && duration(self) <= duration('1h')",message="network must be at least 30s and at most 1h, for example 10m"
	Network *metav1.Duration `json:"network,omitempty"`

	// silence is how long an agent may send nothing before its cluster is Stale and gets no new
	// reservations. Agents send three advertisements in this time. It defaults to 90s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('15s') && duration(self) <= duration('1h')",message="silence must be at least 15s and at most 1h, for example 90s"
	Silence *metav1.Duration `json:"silence,omitempty"`

	// healing is how long a provider's agent may send nothing before its reservations move to other
	// providers. It defaults to the larger of timeouts.silence and 90s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('15s') && duration(self) <= duration('24h')",message="healing must be at least 15s and at most 24h, for example 10m"
	Healing *metav1.Duration `json:"healing,omitempty"`

	// notReady is how long a virtual node that was Ready may be NotReady before its reservation
	// moves to another provider. Reservations whose healing is Wait do not move. It defaults to
	// 5m, the time after which Kubernetes evicts the pods of a NotReady node. timeouts.healing
	// does not apply here, because the provider's agent still answers.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('30s') && duration(self) <= duration('24h')",message="notReady must be at least 30s and at most 24h, for example 5m"
	NotReady *metav1.Duration `json:"notReady,omitempty"`
}

// MemberBudget limits how much of the broker's memory, journal and connections one cluster may use.
// The broker refuses a call beyond a limit with a message that names the limit, and sets condition
// WithinBudget of the cluster's ClusterAdvertisement to false.
type MemberBudget struct {
	// reservations is how many reservations of one cluster the broker remembers, including ended
	// ones, plus the idempotency keys that the cluster released before their requests arrived. If
	// there are more, the broker forgets the oldest ended reservations and the oldest of these
	// keys. It defaults to 10000.
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

	// journalPerHour is how many bytes per hour the calls of one cluster may add to the journal, on
	// average. It defaults to 32Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(string(self)) <= 64 && !string(self).matches('[eE].?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).compareTo(quantity('16Gi')) <= 0",message="journalPerHour must be at least 1Mi and at most 16Gi, for example 64Mi"
	JournalPerHour *resource.Quantity `json:"journalPerHour,omitempty"`

	// connections is how many connections one cluster may have open. If it opens more, the broker
	// closes its oldest ones. It defaults to 128.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=10000
	Connections int32 `json:"connections,omitempty"`
}

// ExchangeRates is a table of exchange rates between one base currency and others.
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

	// rates maps the ISO 4217 code of a currency to how much of it one unit of base buys.
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
	// CandidatesFull shows the names, scores, reasons and prices of the candidates that were not
	// chosen.
	CandidatesFull CandidatesShown = "Full"
	// CandidatesAnonymous shows the same as CandidatesFull except the messages, and names the
	// candidates candidate-1, candidate-2 and so on.
	CandidatesAnonymous CandidatesShown = "Anonymous"
	// CandidatesCounts shows only how many candidates were rejected for each reason.
	CandidatesCounts CandidatesShown = "Counts"
)

// Visibility limits what requesters see of candidates that were not chosen. They see everything
// about the chosen one. Objects in the broker cluster show everything about all candidates.
type Visibility struct {
	// candidates is Full (the default), Anonymous or Counts.
	// +optional
	Candidates CandidatesShown `json:"candidates,omitempty"`

	// hidePrices hides the prices of the candidates that were not chosen, and their scores for
	// cost.
	// +optional
	HidePrices bool `json:"hidePrices,omitempty"`
}

// RateLimits limits the rate of each cluster's requests. The broker answers a request beyond a
// limit with HTTP status 429 and a Retry-After header.
type RateLimits struct {
	// requestsPerSecond is how many requests one cluster may send per second on average. It
	// defaults to 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	RequestsPerSecond int32 `json:"requestsPerSecond,omitempty"`

	// burst is how many requests one cluster may send at once after a pause. It defaults to 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Burst int32 `json:"burst,omitempty"`

	// inFlight is how many requests of one cluster the broker handles at the same time, including
	// long polls. It defaults to 64.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=10000
	InFlight int32 `json:"inFlight,omitempty"`
}

// ResourceBounds maps resource names to the largest amount allowed.
//
// +kubebuilder:validation:MaxProperties=10
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).startsWith('-'))",message="a bound cannot be negative"
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).matches('[Bbgo-t]'))",message="an amount is a number with a unit such as m, Mi or Gi where it needs one, for example 500m or 4Gi, not 4GB, 4g or 2cores"
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).matches('[a-dv-z]'))",message="an amount is a number with a unit such as m, Mi or Gi where it needs one, for example 500m or 4Gi, not 4GB, 4g or 2cores"
// +kubebuilder:validation:XValidation:rule="self.all(k, !string(self[k]).matches('[ ,_Q-Z]'))",message="an amount is a number with a unit such as m, Mi or Gi where it needs one, for example 500m or 4Gi, not 4GB, 4g or 2cores"
type ResourceBounds map[corev1.ResourceName]resource.Quantity

// ClusterDrain empties a cluster of reservations, or only stops new ones. The broker tells the
// requesters, and looks for other providers. A reservation leaves the cluster as soon as its node
// on another provider is Ready, or at the end of the notice.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.cordonOnly) && self.cordonOnly && has(self.notice))",message="with cordonOnly reservations stay: leave notice out",fieldPath=".notice"
type ClusterDrain struct {
	// clusterID is the ID of the cluster.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a cluster ID is a DNS label: lower-case letters, digits and '-' only"
	ClusterID string `json:"clusterID"`

	// cordonOnly lets existing reservations stay, so that the cluster only gets no new ones. It
	// defaults to false.
	// +optional
	CordonOnly bool `json:"cordonOnly,omitempty"`

	// notice is how long existing reservations may stay, counted from when the broker first reads
	// the entry. It defaults to 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="notice must be at least 0s and at most 720h, for example 1h30m"
	Notice *metav1.Duration `json:"notice,omitempty"`

	// reason is shown to requesters, for example "maintenance of rack 4". It may be empty.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

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

// ApprovedCluster is a cluster that may take part when admission is Approved.
type ApprovedCluster struct {
	// clusterID is the ID of the cluster.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a cluster ID is a DNS label: lower-case letters, digits and '-' only"
	ClusterID string `json:"clusterID"`

	// keyFingerprint is the SHA-256 digest of the public key (SubjectPublicKeyInfo) with which the
	// cluster may enrol without a token. The cluster's agent logs the fingerprint, and
	// status.pendingEnrolments shows it. If it is not set, the cluster needs a token to enrol.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="a fingerprint is sha256: and 64 hexadecimal digits, as in status.pendingEnrolments"
	KeyFingerprint string `json:"keyFingerprint,omitempty"`
}

// PendingEnrolment is a cluster that asked for a certificate without a token and waits for
// approval.
type PendingEnrolment struct {
	// clusterID is the ID that the cluster gave. The broker has not verified it.
	// +kubebuilder:validation:MaxLength=40
	ClusterID string `json:"clusterID"`

	// keyFingerprint is the SHA-256 digest of the public key in the cluster's request. Before you
	// approve the cluster, compare it with the fingerprint that the cluster's agent logs.
	// +kubebuilder:validation:MaxLength=71
	KeyFingerprint string `json:"keyFingerprint"`

	// since is when the cluster first asked for the certificate.
	Since metav1.Time `json:"since"`

	// lastAsked is when the cluster last asked for the certificate. It may be up to ten minutes out
	// of date.
	LastAsked metav1.Time `json:"lastAsked"`
}

// BrokerConfigStatus says whether the configuration is in force, and lists the clusters that wait
// for approval. The broker sets it.
type BrokerConfigStatus struct {
	// observedGeneration is the metadata.generation that this status describes; 0 until the
	// broker has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions contains Ready, which is true when the broker uses this configuration. If the
	// broker refuses spec, Ready is false and its message says which configuration is in force.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// pendingEnrolments lists clusters that wait for approval, oldest first. To approve one, add
	// its clusterID and keyFingerprint to spec.approvedClusters. An entry disappears once the
	// cluster has not asked for an hour.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	PendingEnrolments []PendingEnrolment `json:"pendingEnrolments,omitempty"`
}

// BrokerConfig configures the broker's decisions and limits. There is at most one, named default.
// Without it, all defaults apply.
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

	// spec is the configuration.
	// +optional
	Spec BrokerConfigSpec `json:"spec,omitempty"`

	// status says whether the configuration is in force.
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
