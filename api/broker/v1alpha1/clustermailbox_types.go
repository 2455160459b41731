package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterMailboxSpec is a request as it is described in openapi.json. Who asks is told by
// the namespace alone.
type ClusterMailboxSpec struct {
	// method of the operation.
	// +required
	// +kubebuilder:validation:Enum=GET;POST;PATCH;DELETE
	Method string `json:"method"`

	// path of the operation, with its query.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[!-~]*$`
	Path string `json:"path"`

	// idempotencyKey is what the header Idempotency-Key says.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	IdempotencyKey string `json:"idempotencyKey,omitempty"`

	// journalCursor is what the header Journal-Cursor says.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	JournalCursor string `json:"journalCursor,omitempty"`

	// apiMinor is what the header Api-Minor says: the minor version of the API that the
	// agent speaks.
	// +optional
	// +kubebuilder:validation:Minimum=0
	APIMinor int32 `json:"apiMinor,omitempty"`

	// body is JSON, compressed with gzip, in base64.
	// +optional
	// +kubebuilder:validation:MaxLength=524288
	Body string `json:"body,omitempty"`
}

// ClusterMailboxStatus is the broker's answer.
type ClusterMailboxStatus struct {
	// code is that of HTTP; 0 means that there is no answer yet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=599
	Code int32 `json:"code,omitempty"`

	// contentType of the body: application/json or, where the broker refused,
	// application/problem+json.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ContentType string `json:"contentType,omitempty"`

	// retryAfterSeconds is when asking again makes sense.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RetryAfterSeconds int32 `json:"retryAfterSeconds,omitempty"`

	// body is JSON, compressed with gzip, in base64.
	// +optional
	// +kubebuilder:validation:MaxLength=917504
	Body string `json:"body,omitempty"`
}

// ClusterMailbox is one request of a cluster's agent to the broker, and its answer. The
// agent makes it in the namespace of its cluster, waits for the status, and deletes it.
// It holds no secret. Nobody needs to keep one: the broker deletes what is left over.
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
