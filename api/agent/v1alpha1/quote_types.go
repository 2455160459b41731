package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// QuotePhase summarizes the state of a Quote for people. Programs should read conditions.
//
// +kubebuilder:validation:Enum=Pending;Held;Taken;Expired;Failed
type QuotePhase string

// Phases of a Quote.
const (
	// QuotePending means that the broker has not answered yet.
	QuotePending QuotePhase = "Pending"
	// QuoteHeld means that the broker holds the quoted capacity.
	QuoteHeld QuotePhase = "Held"
	// QuoteTaken means that a ResourceRequest has taken over the quote.
	QuoteTaken QuotePhase = "Taken"
	// QuoteExpired means that the hold ended before a ResourceRequest took over the quote.
	QuoteExpired QuotePhase = "Expired"
	// QuoteFailed means that nothing was held, because no cluster has room or the broker refused the quote.
	QuoteFailed QuotePhase = "Failed"
)

// DefaultQuoteHold is how long capacity is held if spec.hold is not set. The schema has the same default.
const DefaultQuoteHold = 5 * time.Minute

// QuoteSpec describes the capacity to quote. Its fields mean the same as those of a ResourceRequest.
//
// +kubebuilder:validation:XValidation:rule="has(self.podShapes) || has(self.cpu) && has(self.memory)",message="set both cpu and memory, for example cpu: 500m and memory: 256Mi, or podShapes: a virtual node needs both"
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a Quote cannot be changed, because the broker may hold its capacity already: delete it and create another"
type QuoteSpec struct {
	// cpu is the amount of CPU in cores, for example "500m". cpu and memory are required unless
	// podShapes contain them.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(string(self)) <= 64 && !string(self).matches('[eE].?[0-9]{3}') && isQuantity(string(self))",message="cpu must be a number of cores, for example 2, 0.5 or 500m"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[0-9]') || !string(self).startsWith('-') && string(self).matches('^[^eE]*[1-9]')",message="cpu must be above zero, for example 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is the amount of memory, for example "256Mi".
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(string(self)) <= 64 && !string(self).matches('[eE].?[0-9]{3}') && isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Mi')) >= 0",message="memory must be at least 1Mi, written with a unit such as Mi or Gi (not MB or GB), for example 256Mi"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// resources are amounts of other resources, for example nvidia.com/gpu: "1" or pods: "20". At
	// most eight can be named.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self) <= 8",message="at most eight resources can be named besides cpu and memory"
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) && !('memory' in self)",message="cpu and memory have fields of their own: set spec.cpu and spec.memory"
	Resources brokerv1alpha1.RequestedResources `json:"resources,omitempty"`

	// priority is the priority of the request that the quote is for. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// duration is how long the request would hold the capacity, from 1m to 87600h (ten years). If it is not set,
	// status.cost.toEnd is the price of 24 hours.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1m') && duration(self) <= duration('87600h')",message="duration must be at least 1m and at most 87600h, for example 2h30m, or left out"
	Duration *metav1.Duration `json:"duration,omitempty"`

	// hold is how long the broker holds the capacity, from 1s to BrokerConfig.spec.maxQuoteHold (5m unless the
	// administrator changes it). In this time, a ResourceRequest can take over the quote.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="hold must be at least 1s and at most 1h, for example 5m"
	Hold *metav1.Duration `json:"hold,omitempty"`

	brokerv1alpha1.Requirements `json:",inline"`
}

// QuoteCost is what the quoted capacity costs at the provider. Amounts are exact decimals.
type QuoteCost struct {
	// perHour is the price of one hour.
	// +required
	// +kubebuilder:validation:MaxLength=40
	PerHour string `json:"perHour"`

	// toEnd is the price of the whole duration, or of 24 hours if spec.duration is not set.
	// +optional
	// +kubebuilder:validation:MaxLength=60
	ToEnd string `json:"toEnd,omitempty"`

	// currency is the ISO 4217 code of perHour and toEnd.
	// +required
	// +kubebuilder:validation:MaxLength=3
	Currency string `json:"currency"`

	// notPriced lists the resources for which the provider names no price. The amounts of money leave them out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=317
	NotPriced []string `json:"notPriced,omitempty"`
}

// QuoteStatus holds the broker's answer. The agent sets it.
type QuoteStatus struct {
	// phase summarizes the state in one word, for people to read.
	// +optional
	Phase QuotePhase `json:"phase,omitempty"`

	// asked is true once the agent may have asked the broker. The agent sets it before its first call.
	// +optional
	Asked bool `json:"asked,omitempty"`

	// quoteName is the name that the broker gave to the held quote.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	QuoteName string `json:"quoteName,omitempty"`

	// targetClusterID is the ID of the cluster whose capacity is held.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	TargetClusterID string `json:"targetClusterID,omitempty"`

	// cost is what the capacity costs at that cluster. It is not set if that cluster has no price.
	// +optional
	Cost *QuoteCost `json:"cost,omitempty"`

	// expiresAt is when the hold ends. The agent deletes the Quote ten minutes later.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// takenBy is the name of the ResourceRequest that has taken over the quote.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TakenBy string `json:"takenBy,omitempty"`

	// message describes the state in words, and the next step if the user has to act.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// candidates are the ten best candidates of the decision, the chosen one first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Candidates []brokerv1alpha1.Candidate `json:"candidates,omitempty"`

	// observedGeneration is the metadata.generation that this status describes; 0 until the agent
	// has processed the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions contains Ready, which is true while the broker holds the capacity.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// IsOver reports whether the quote has ended: it was taken over, has expired or has failed.
func (q *Quote) IsOver() bool {
	return q.Status.Phase == QuoteTaken || q.Status.Phase == QuoteExpired || q.Status.Phase == QuoteFailed
}

// Request returns a ResourceRequest for the quoted capacity, in the namespace of the Quote and without a name. It is
// never written to the API server. Functions that check or describe requests use it for Quotes.
func (q *Quote) Request() *ResourceRequest {
	asked := q.DeepCopy()
	rr := &ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace}}
	rr.Spec.CPU, rr.Spec.Memory, rr.Spec.Resources = asked.Spec.CPU, asked.Spec.Memory, asked.Spec.Resources
	rr.Spec.Priority, rr.Spec.Duration, rr.Spec.Requirements = asked.Spec.Priority, asked.Spec.Duration, asked.Spec.Requirements
	return rr
}

// Quote locks capacity for a short time at the price of the broker's decision. A ResourceRequest that names it in
// spec.quote gets the capacity at this price.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=quo,categories={broker,liqo}
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.status.targetClusterID`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.spec.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.spec.memory`
// +kubebuilder:printcolumn:name="Per-Hour",type=string,JSONPath=`.status.cost.perHour`
// +kubebuilder:printcolumn:name="To-End",type=string,JSONPath=`.status.cost.toEnd`
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.status.cost.currency`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Taken-By",type=string,JSONPath=`.status.takenBy`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
type Quote struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the capacity to quote.
	// +required
	Spec QuoteSpec `json:"spec"`

	// status holds the broker's answer.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "waiting for the agent", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status QuoteStatus `json:"status,omitempty"`
}

// QuoteList is a list of Quotes.
//
// +kubebuilder:object:root=true
type QuoteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Quote `json:"items"`
}
