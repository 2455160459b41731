// Package fault defines the errors that keep their meaning across the wire. The broker returns them, the server
// writes them as problem documents, and the agent's transport turns those back into the same errors.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// Reason identifies the cause of an Error for programs. Its values are stable.
type Reason string

// Reasons of an Error.
const (
	// NoCandidate means that no cluster can hold the request now.
	NoCandidate Reason = "NoCandidate"
	// Invalid means that the request can never be served as it is.
	Invalid Reason = "Invalid"
	// KeyReused means that the idempotency key came with another body.
	KeyReused Reason = "IdempotencyKeyReused"
	// Released means that the key was released before the request arrived, or that
	// its reservation has ended.
	Released Reason = "ReservationReleased"
	// NotFound means that the caller has no such reservation.
	NotFound Reason = "NotFound"
	// Forbidden means that the caller has another identity than it claims, or lacks permission.
	Forbidden Reason = "Forbidden"
	// Conflict means that a report does not fit the placement's state.
	Conflict Reason = "Conflict"
	// Unavailable means that the broker cannot write now; nothing was granted.
	Unavailable Reason = "Unavailable"
	// Recovering means that the broker was restored from an older state and waits until clusters have announced their
	// holdings; nothing was granted.
	Recovering Reason = "Recovering"
	// QueueFull means that no cluster can hold the request now, and that the queue is full; the request was not
	// stored.
	QueueFull Reason = "QueueFull"
	// Awaiting means that a reservation cannot be changed until its provider has answered an earlier change.
	Awaiting Reason = "AwaitingProvider"
	// TooManyRequests means that the caller exceeds its request rate.
	TooManyRequests Reason = "TooManyRequests"
	// TooLarge means that the request is too large for the broker to store; the detail has the figures.
	TooLarge Reason = "TooLarge"
	// ClusterDenied means that an administrator has denied the caller's cluster.
	ClusterDenied Reason = "ClusterDenied"
	// ClusterNotApproved means that only approved clusters take part, and the caller's cluster is not approved.
	ClusterNotApproved Reason = "ClusterNotApproved"
	// InvalidCSR means that a certificate signing request contains more than a cluster's certificate may have.
	InvalidCSR Reason = "InvalidCertificateRequest"
	// TokenInvalid means that an enrolment token is unknown, malformed or for
	// another cluster.
	TokenInvalid Reason = "TokenInvalid"
	// TokenExpired means that an enrolment token has expired.
	TokenExpired Reason = "TokenExpired"
	// TokenUsed means that an enrolment token was used with another key.
	TokenUsed Reason = "TokenUsed"
	// IssuanceDenied means that a certificate approver denied the request.
	IssuanceDenied Reason = "IssuanceDenied"
	// IssuanceFailed means that the issuer could not sign; a retry may succeed.
	IssuanceFailed Reason = "IssuanceFailed"
	// Internal means a defect of the broker; see its log.
	Internal Reason = "Internal"
)

var statusOf = map[Reason]int{
	NoCandidate:        http.StatusConflict,
	Invalid:            http.StatusBadRequest,
	KeyReused:          http.StatusUnprocessableEntity,
	Released:           http.StatusGone,
	NotFound:           http.StatusNotFound,
	Forbidden:          http.StatusForbidden,
	Conflict:           http.StatusConflict,
	Unavailable:        http.StatusServiceUnavailable,
	Recovering:         http.StatusServiceUnavailable,
	QueueFull:          http.StatusServiceUnavailable,
	Awaiting:           http.StatusConflict,
	TooManyRequests:    http.StatusTooManyRequests,
	TooLarge:           http.StatusRequestEntityTooLarge,
	ClusterDenied:      http.StatusForbidden,
	ClusterNotApproved: http.StatusForbidden,
	InvalidCSR:         http.StatusBadRequest,
	TokenInvalid:       http.StatusForbidden,
	TokenExpired:       http.StatusForbidden,
	TokenUsed:          http.StatusForbidden,
	IssuanceDenied:     http.StatusForbidden,
	IssuanceFailed:     http.StatusServiceUnavailable,
	Internal:           http.StatusInternalServerError,
}

// HTTPStatus returns the status of the problem document for r, 500 for an unknown reason.
func (r Reason) HTTPStatus() int {
	if s, ok := statusOf[r]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Error is a refusal with a reason that the caller can act on.
type Error struct {
	// Reason is for programs.
	Reason Reason
	// Detail is for people. It names the object, the value and the remedy.
	Detail string
	// RetryAfter is the time to wait before a retry; 0 if unknown.
	RetryAfter time.Duration
	// Candidates explains a NoCandidate: the ten best clusters, nearest match first.
	Candidates []v1.Candidate
	// Rejected counts a NoCandidate's candidates by reason.
	Rejected map[string]int32
	// Figure names the exceeded part of the caller's budget; "" if the budget is not the cause. It is not sent to the
	// caller.
	Figure string
}

// New returns an Error with a formatted detail.
func New(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Detail }

// Temporary reports whether the same call may succeed later without any change by the caller.
func (e *Error) Temporary() bool {
	return e.Reason == Unavailable || e.Reason == Recovering || e.Reason == QueueFull || e.Reason == Awaiting || e.Reason == TooManyRequests || e.Reason == IssuanceFailed || e.Reason == Internal
}

// OfCaller reports whether the caller itself was rejected. The state of the reservation in the request is unaffected.
func (e *Error) OfCaller() bool {
	return e.Reason == Forbidden || e.Reason == ClusterDenied || e.Reason == ClusterNotApproved
}

// ReasonOf returns the reason of the first Error in err's chain, "" if there is none.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}
