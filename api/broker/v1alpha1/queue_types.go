package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QueuePolicy says what happens to a request that no cluster has room for.
//
// +kubebuilder:validation:Enum=Fail;Queue
type QueuePolicy string

// Values of QueuePolicy.
const (
	// QueuePolicyFail lets the request fail, also when its placement ended early and no other
	// cluster has room.
	QueuePolicyFail QueuePolicy = "Fail"
	// QueuePolicyQueue lets the request wait for capacity.
	QueuePolicyQueue QueuePolicy = "Queue"
)

// QueuePlace is the place of a waiting request in the queue.
type QueuePlace struct {
	// position is the place of the request in the queue, from 1. Requests are ordered by priority,
	// then by arrival. The broker may update position up to one minute late.
	// +optional
	Position int32 `json:"position,omitempty"`

	// since is when the request entered the queue.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// until is when the request fails if it has no capacity by then.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// reason is why the request waits. NoCandidate: no cluster has room. Preempting: reservations
	// of a lower priority are making room for this request. Preempted: a request of a higher
	// priority took the capacity of this one. QueuePaused: the broker's administrator has paused
	// the queue.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
}

// QueueConfig limits how many requests wait for capacity, and for how long.
type QueueConfig struct {
	// paused stops the queue from being served. Waiting requests keep their places, even beyond
	// their queueTimeout. A new request does not overtake a waiting one: it waits, or is refused
	// if its queuePolicy is Fail. Reservations that have to leave their provider still move. It
	// defaults to false.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// maxLength is how many requests may wait. The broker refuses further requests with HTTP status
	// 503 and a Retry-After header. 0 turns the queue off. It defaults to 10000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	MaxLength *int32 `json:"maxLength,omitempty"`

	// defaultTimeout is how long a request without queueTimeout may wait. It defaults to 1h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="defaultTimeout must be at least 1s and at most 87600h, for example 2h30m"
	DefaultTimeout *metav1.Duration `json:"defaultTimeout,omitempty"`
}

// PreemptionPolicy says which reservations a waiting request may replace.
//
// +kubebuilder:validation:Enum=Never;LowerPriority
type PreemptionPolicy string

// Values of PreemptionPolicy.
const (
	// PreemptNever lets no reservation be replaced.
	PreemptNever PreemptionPolicy = "Never"
	// PreemptLowerPriority allows a waiting request to replace reservations of a lower
	// priority.
	PreemptLowerPriority PreemptionPolicy = "LowerPriority"
)

// PreemptionConfig says whether reservations must make room for waiting requests of a higher
// priority.
type PreemptionConfig struct {
	// policy is Never (the default) or LowerPriority.
	// +optional
	Policy PreemptionPolicy `json:"policy,omitempty"`

	// gracePeriod is the time from the preemption notice until the placement of the preempted
	// reservation ends. It defaults to 2m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="gracePeriod must be at least 0s and at most 24h, for example 5m"
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`
}

// PriorityLimit limits the priority of the requests of one cluster.
type PriorityLimit struct {
	// clusterID is the ID of the requesting cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterID string `json:"clusterID"`

	// maxPriority is the highest priority that a request of the cluster can have. A request for
	// more gets this priority.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MaxPriority int32 `json:"maxPriority"`
}
