package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QueuePolicy says what happens to a request that no cluster can hold.
//
// +kubebuilder:validation:Enum=Fail;Queue
type QueuePolicy string

// Policies of the queue.
const (
	// QueuePolicyFail refuses it, or ends it where its placement was given up.
	QueuePolicyFail QueuePolicy = "Fail"
	// QueuePolicyQueue lets it wait for capacity.
	QueuePolicyQueue QueuePolicy = "Queue"
)

// QueuePlace is the place of a request that waits.
type QueuePlace struct {
	// position in the queue, from 1: those of a higher priority come first, then those
	// that came first. It is brought up to date within a minute.
	// +optional
	Position int32 `json:"position,omitempty"`

	// since is when it came into the queue.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// until is when it fails if it got no place before.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// reason why it waits. NoCandidate: no cluster can hold it. Preempting: others make
	// room for it. Preempted: it had a place, and a higher priority took it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`
}

// QueueConfig bounds the queue of requests that wait for capacity.
type QueueConfig struct {
	// maxLength is how many requests may wait at once; another one is asked to come
	// later. 0 turns the queue off. It defaults to 10000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	MaxLength *int32 `json:"maxLength,omitempty"`

	// defaultTimeout is how long a request waits that does not say. It defaults to 1h.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="defaultTimeout must be at least 1s and at most 87600h, for example 2h30m"
	DefaultTimeout *metav1.Duration `json:"defaultTimeout,omitempty"`
}

// PreemptionPolicy says whose place a request may take.
//
// +kubebuilder:validation:Enum=Never;LowerPriority
type PreemptionPolicy string

// Policies of preemption.
const (
	// PreemptNever lets every reservation stand.
	PreemptNever PreemptionPolicy = "Never"
	// PreemptLowerPriority lets a request that waits take the place of reservations
	// of a lower priority.
	PreemptLowerPriority PreemptionPolicy = "LowerPriority"
)

// PreemptionConfig says whether reservations make room for those of a higher priority.
type PreemptionConfig struct {
	// policy is Never (the default) or LowerPriority.
	// +optional
	Policy PreemptionPolicy `json:"policy,omitempty"`

	// gracePeriod is from the notice until a reservation that makes room is taken down.
	// It defaults to 2m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="gracePeriod must be at least 0s and at most 24h, for example 5m"
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`
}

// PriorityCeiling is the highest priority of a cluster's requests.
type PriorityCeiling struct {
	// clusterID of the cluster that asks.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterID string `json:"clusterID"`

	// maxPriority is what a higher priority counts as.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MaxPriority int32 `json:"maxPriority"`
}
