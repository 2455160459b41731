package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterMailboxSpec is one request to the broker's REST API, which openapi.yaml describes. No
// field names the caller: the namespace of the object identifies it.
type ClusterMailboxSpec struct {
	// method is the HTTP method of the operation.
	// +required
	// +kubebuilder:validation:Enum=GET;POST;PATCH;DELETE
	Method string `json:"method"`

	// path is the path of the operation, with its query string.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[!-~]*$`
	Path string `json:"path"`

	// idempotencyKey is the value of the header Idempotency-Key, if the operation takes it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	IdempotencyKey string `json:"idempotencyKey,omitempty"`

	// journalCursor is the value of the header Journal-Cursor: the cursor of the last instructions
	// that the agent received.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	JournalCursor string `json:"journalCursor,omitempty"`

	// apiMinor is the value of the header Api-Minor: the minor version of the agent's API.
	// +optional
	// +kubebuilder:validation:Minimum=0
	APIMinor int32 `json:"apiMinor,omitempty"`

	// body is the JSON body, compressed with gzip and encoded in base64.
	// +optional
	// +kubebuilder:validation:MaxLength=524288
	Body string `json:"body,omitempty"`
}

// ClusterMailboxStatus is the broker's answer to the request. The broker sets it.
type ClusterMailboxStatus struct {
	// code is the HTTP status code. It is 0 until the broker answers.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=599
	Code int32 `json:"code,omitempty"`

	// contentType is the media type of the body: application/json, or application/problem+json
	// when the broker refused the request.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ContentType string `json:"contentType,omitempty"`

	// retryAfterSeconds is how many seconds the agent waits before it tries again. It is 0 if the
	// broker names no time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RetryAfterSeconds int32 `json:"retryAfterSeconds,omitempty"`

	// body is the JSON body, compressed with gzip and encoded in base64.
	// +optional
	// +kubebuilder:validation:MaxLength=917504
	Body string `json:"body,omitempty"`
}

// ClusterMailbox is one request of an agent to the broker, and its answer. The agent creates it in
// its cluster's namespace, waits for the status and deletes it. It contains no secrets. The broker
// deletes ClusterMailboxes that agents leave behind.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=cmbx,categories={broker,liqo}
// +kubebuilder:printcolumn:name="Method",type=string,JSONPath=`.spec.method`
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.spec.path`
// +kubebuilder:printcolumn:name="Code",type=integer,JSONPath=`.status.code`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterMailbox struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the request.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a request cannot be changed: create another ClusterMailbox"
	Spec ClusterMailboxSpec `json:"spec"`

	// status is the answer.
	// +optional
	Status ClusterMailboxStatus `json:"status,omitempty"`
}

// ClusterMailboxList is a list of ClusterMailboxes.
//
// +kubebuilder:object:root=true
type ClusterMailboxList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterMailbox `json:"items"`
}
