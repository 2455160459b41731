package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// PodSelector selects pods by their labels.
type PodSelector struct {
	// matchLabels are labels that a pod must have, with these values.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	MatchLabels map[string]brokerv1alpha1.LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements on labels. A pod must meet all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []brokerv1alpha1.LabelExpression `json:"matchExpressions,omitempty"`
}

// BurstTemplate describes the ResourceRequests of a BurstPolicy.
type BurstTemplate struct {
	// spec holds fields of the ResourceRequests.
	// +optional
	Spec BurstTemplateSpec `json:"spec,omitempty"`
}

// BurstTemplateSpec holds the fields that all ResourceRequests of a BurstPolicy have in common. They
// mean the same as those of a ResourceRequest. The pods determine amounts and pod shapes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.queueTimeout) || has(self.queuePolicy) && self.queuePolicy == 'Queue'",fieldPath=".queueTimeout",message="queueTimeout has no effect without queuePolicy: Queue: set that too, or leave queueTimeout out"
// +kubebuilder:validation:XValidation:rule="!has(self.offloading) || !has(self.offloading.podCompliance) || self.offloading.podCompliance != 'Enforce'",fieldPath=".offloading.podCompliance",message="podCompliance Enforce pins pods to the node of one request, so that they cannot use the others: leave it out"
type BurstTemplateSpec struct {
	// priority is the priority of the requests in the queue. It defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Priority int32 `json:"priority,omitempty"`

	// queuePolicy says what happens when no cluster has room: Fail (the default) lets a request
	// fail, and another one is made five minutes later; Queue lets it wait for capacity.
	// +optional
	QueuePolicy brokerv1alpha1.QueuePolicy `json:"queuePolicy,omitempty"`

	// queueTimeout is how long a request may wait in the queue before it fails. It defaults to
	// BrokerConfig.spec.queue.defaultTimeout (1h).
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('1s') && duration(self) <= duration('87600h')",message="queueTimeout must be at least 1s and at most 87600h, for example 2h30m, or left out"
	QueueTimeout *metav1.Duration `json:"queueTimeout,omitempty"`

	// healing says what happens when a provider is lost: Migrate (the default) or Wait.
	// +optional
	Healing brokerv1alpha1.Healing `json:"healing,omitempty"`

	// group is a name by which other requests refer to these requests in affinity and antiAffinity.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="group must be made of letters, digits, '-', '_' and '.'"
	Group string `json:"group,omitempty"`

	// constraints restrict the choice of provider. Regions, zones and clusters that pods select
	// restrict it further.
	// +optional
	Constraints *brokerv1alpha1.Constraints `json:"constraints,omitempty"`

	// offloading says how the namespace is offloaded. Requests of one namespace must agree.
	// +optional
	Offloading *Offloading `json:"offloading,omitempty"`
}

// BurstPolicySpec says for which pods the agent borrows capacity, and how much at most.
type BurstPolicySpec struct {
	// selector selects pods of the namespace. By default all pods are selected.
	// +optional
	Selector *PodSelector `json:"selector,omitempty"`

	// after is how long a pod must have been unschedulable before capacity is requested for it and
	// for the pods like it. It defaults to 30s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('0s') && duration(self) <= duration('24h')",message="after must be at least 0s and at most 24h, for example 30s"
	After *metav1.Duration `json:"after,omitempty"`

	// idleAfter is how long a request must have had no pod, on its node or waiting for it, before it
	// is ended. It defaults to 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self != '' && self.matches('^([0-9.]{1,6}h)?([0-9.]{1,7}m)?([0-9.]{1,9}s)?$') && duration(self) >= duration('10s') && duration(self) <= duration('720h')",message="idleAfter must be at least 10s and at most 720h, for example 10m"
	IdleAfter *metav1.Duration `json:"idleAfter,omitempty"`

	// limit is the most that all requests of the policy together may ask for, by resource. A
	// resource that is not named has no limit; pods limits the number of pods.
	// +required
	// +kubebuilder:validation:XValidation:rule="size(self) > 0 && size(self) <= 16",message="limit must name at least one resource and at most 16, for example cpu: \"64\""
	Limit brokerv1alpha1.RequestedResources `json:"limit"`

	// template describes the requests.
	// +optional
	Template BurstTemplate `json:"template,omitempty"`
}

// BurstRequest is a ResourceRequest of a BurstPolicy.
type BurstRequest struct {
	// name is the name of the ResourceRequest.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// pods is for how many pods the request has room.
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// phase is the phase of the ResourceRequest.
	// +optional
	Phase ResourceRequestPhase `json:"phase,omitempty"`

	// idleSince is since when the request has had no pod, as far as this agent knows. The clock
	// starts anew when the agent restarts.
	// +optional
	IdleSince *metav1.Time `json:"idleSince,omitempty"`
}

// SkippedPods are unschedulable pods for which no capacity is requested, because they could not run
// on a virtual node.
type SkippedPods struct {
	// reason is the reason in one word.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// pods is the number of these pods.
	// +optional
	Pods int32 `json:"pods,omitempty"`

	// example is the name of one of these pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Example string `json:"example,omitempty"`

	// message says what keeps the pods off virtual nodes, and what helps.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// BurstAction is what a BurstPolicy did: Create (a request), Grow (a request) or End (an idle
// request).
//
// +kubebuilder:validation:Enum=Create;Grow;End
type BurstAction string

// Values of BurstAction.
const (
	BurstCreate BurstAction = "Create"
	BurstGrow   BurstAction = "Grow"
	BurstEnd    BurstAction = "End"
)

// BurstChange is a change that the agent decided on. It is recorded before it is made, so that a
// restarted agent also keeps the pause between two changes.
type BurstChange struct {
	// at is when the agent decided on the change.
	// +required
	At metav1.Time `json:"at"`

	// action is Create, Grow or End.
	// +required
	Action BurstAction `json:"action"`

	// request is the name of the ResourceRequest.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Request string `json:"request"`

	// pods is for how many pods the request has room after the change; 0 if it ends.
	// +optional
	Pods int32 `json:"pods,omitempty"`
}

// BurstPolicyStatus shows what the policy did and what it waits for. The agent sets it.
type BurstPolicyStatus struct {
	// waitingPods is the number of unschedulable pods that could run on a virtual node.
	// +optional
	WaitingPods int32 `json:"waitingPods,omitempty"`

	// skippedPods is the number of unschedulable pods that could not run on a virtual node.
	// +optional
	SkippedPods int32 `json:"skippedPods,omitempty"`

	// skipped counts the skipped pods by reason.
	// +optional
	// +listType=map
	// +listMapKey=reason
	// +kubebuilder:validation:MaxItems=32
	Skipped []SkippedPods `json:"skipped,omitempty"`

	// requested is what all requests of the policy together ask for or hold.
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`

	// requestCount is the number of requests of the policy that ask for or hold capacity.
	// +optional
	RequestCount int32 `json:"requestCount,omitempty"`

	// requests are the first 64 requests of the policy, by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Requests []BurstRequest `json:"requests,omitempty"`

	// lastChange is the last change of the requests.
	// +optional
	LastChange *BurstChange `json:"lastChange,omitempty"`

	// observedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready (new pods of the namespace are prepared for virtual nodes) and Covered
	// (no pod waits for which capacity has yet to be requested or granted).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BurstPolicy borrows capacity of other clusters for unschedulable pods of its namespace. It creates
// ResourceRequests for them, enlarges these, and ends them when no pod uses them. The namespace
// needs the label liqo.io/broker-burst=true.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=burst,categories={broker,liqo}
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Covered")].reason`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waitingPods`
// +kubebuilder:printcolumn:name="Skipped",type=integer,JSONPath=`.status.skippedPods`
// +kubebuilder:printcolumn:name="Requests",type=integer,JSONPath=`.status.requestCount`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.status.requested.cpu`
// +kubebuilder:printcolumn:name="CPU-Limit",type=string,JSONPath=`.spec.limit.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.requested.memory`
// +kubebuilder:printcolumn:name="Last-Change",type=date,JSONPath=`.status.lastChange.at`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Covered")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 45",message="the name of a BurstPolicy has at most 45 characters, because the names of its ResourceRequests begin with it: choose a shorter one"
type BurstPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says for which pods capacity is borrowed, and how much.
	// +required
	Spec BurstPolicySpec `json:"spec"`

	// status shows what the policy did and what it waits for.
	// +optional
	Status BurstPolicyStatus `json:"status,omitempty"`
}

// BurstPolicyList is a list of BurstPolicies.
//
// +kubebuilder:object:root=true
type BurstPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BurstPolicy `json:"items"`
}
