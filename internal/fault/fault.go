// Package fault defines errors that keep their reason on the way from the broker to an agent. The broker returns
// them, the server writes them as problem documents (RFC 9457), and the agent's transport turns these back into the
// same errors.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// Reason identifies the cause of an Error for programs. The values are part of the API and must not change.
type Reason string

// Reasons of an Error.
const (
	// NoCandidate means that at present no cluster both meets the requirements of the request and has enough free
	// capacity.
	NoCandidate Reason = "NoCandidate"
	// Invalid means that the request is malformed or contradictory, so that it can never be served as it is.
	Invalid Reason = "Invalid"
	// KeyReused means that the idempotency key was used before with another request body.
	KeyReused Reason = "IdempotencyKeyReused"
	// Released means that the reservation of this idempotency key has ended, or that the key was released before the
	// request arrived.
	Released Reason = "ReservationReleased"
	// NotFound means that the caller has no reservation of the given name.
	NotFound Reason = "NotFound"
	// Forbidden means that the caller's certificate is for another cluster than the request names, or that the caller
	// lacks permission.
	Forbidden Reason = "Forbidden"
	// Conflict means that the call does not fit the present state, for example a report that contradicts the state of
	// its placement.
	Conflict Reason = "Conflict"
	// Unavailable means that the broker cannot carry out the call now, for example because it cannot write to its
	// journal. The detail says whether anything may have been changed.
	Unavailable Reason = "Unavailable"
	// Recovering means that the broker was restored from an older state. It waits until clusters have announced which
	// reservations they hold. Nothing was granted.
	Recovering Reason = "Recovering"
	// QueueFull means that no cluster can hold the request now, and that it cannot wait because the queue is full.
	// The request was not stored.
	QueueFull Reason = "QueueFull"
	// Awaiting means that a reservation cannot be changed until its provider has answered an earlier change.
	Awaiting Reason = "AwaitingProvider"
	// TooManyRequests means that the caller exceeds its request rate or its budget.
	TooManyRequests Reason = "TooManyRequests"
	// TooLarge means that the request is too large for the broker to store. The detail names its size and the limit.
	TooLarge Reason = "TooLarge"
	// ClusterDenied means that the broker's administrator has denied the caller's cluster.
	ClusterDenied Reason = "ClusterDenied"
	// ClusterNotApproved means that only approved clusters may use the broker, and the caller's cluster is not
	// approved.
	ClusterNotApproved Reason = "ClusterNotApproved"
	// InvalidCSR means that a certificate signing request asks for more than the certificate of a cluster may
	// contain.
	InvalidCSR Reason = "InvalidCertificateRequest"
	// TokenInvalid means that an enrolment token is unknown, malformed or for
	// another cluster.
	TokenInvalid Reason = "TokenInvalid"
	// TokenExpired means that an enrolment token has expired.
	TokenExpired Reason = "TokenExpired"
	// TokenUsed means that an enrolment token was already used with another key.
	TokenUsed Reason = "TokenUsed"
	// IssuanceDenied means that an approver of certificates in the broker's cluster denied the certificate request.
	IssuanceDenied Reason = "IssuanceDenied"
	// IssuanceFailed means that the issuer could not sign the certificate. A retry may succeed.
	IssuanceFailed Reason = "IssuanceFailed"
	// Internal means that the broker has a defect. Its log has the details.
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
	QueueFull:          http.StatusTooManyRequests,
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

// HTTPStatus returns the HTTP status of an answer with the reason r; 500 for an unknown reason.
func (r Reason) HTTPStatus() int {
	if s, ok := statusOf[r]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Error is a refusal of a request. Its reason tells programs how to react.
type Error struct {
	// Reason says for programs why the request was refused.
	Reason Reason
	// Detail says for people why the request was refused. It names the object, the value and the remedy.
	Detail string
	// RetryAfter is how long the caller should wait before it tries again; 0 if that is not known.
	RetryAfter time.Duration
	// Candidates explains the reason NoCandidate: the ten clusters that came closest, best first.
	Candidates []v1.Candidate
	// Rejected explains the reason NoCandidate: for each reason of rejection, how many clusters were rejected.
	Rejected map[string]int32
	// Figure names the limit of the caller's budget that the request exceeds; "" if the budget is not the cause. It
	// is not sent to the caller.
	Figure string
}

// New returns an Error with a formatted detail.
func New(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// Over returns the refusal of a call that exceeds a limit of the caller's budget, which figure names. The caller
// should wait for the time after, at least one second.
func Over(figure string, after time.Duration, format string, args ...any) *Error {
	e := New(TooManyRequests, format, args...)
	e.Figure, e.RetryAfter = figure, max(after, time.Second)
	return e
}

// RetryIn sets RetryAfter and returns the Error.
func (e *Error) RetryIn(after time.Duration) *Error {
	e.RetryAfter = after
	return e
}

func (e *Error) Error() string { return e.Detail }

// Temporary reports whether the same call may succeed later without any change by the caller.
func (e *Error) Temporary() bool {
	return e.Reason == Unavailable || e.Reason == Recovering || e.Reason == QueueFull || e.Reason == Awaiting || e.Reason == TooManyRequests || e.Reason == IssuanceFailed || e.Reason == Internal
}

// OfCaller reports whether the caller itself was refused, whatever its request. Such an error says nothing about the
// state of the reservation in the request.
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
