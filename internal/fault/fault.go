// Package fault holds the few errors that mean something to a caller across the
// wire. The broker returns them, the server turns them into problem documents,
// the agent's transport turns those back into the same errors.
package fault

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// Reason is stable and for machines.
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
	// NotFound means that there is no such reservation for the caller.
	NotFound Reason = "NotFound"
	// Forbidden means that the caller is not who it says, or may not do this.
	Forbidden Reason = "Forbidden"
	// Conflict means that a report does not fit the placement's state.
	Conflict Reason = "Conflict"
	// Unavailable means that the broker cannot write now; nothing was granted.
	Unavailable Reason = "Unavailable"
	// Recovering means that the broker was restored from an older state and waits for
	// clusters to say what they hold; nothing was granted.
	Recovering Reason = "Recovering"
	// QueueFull means that no cluster can hold the request now, and that no more
	// requests may wait; nothing was kept of it.
	QueueFull Reason = "QueueFull"
	// Awaiting means that a reservation cannot be changed before a provider has answered
	// something else about it.
	Awaiting Reason = "AwaitingProvider"
	// TooManyRequests means that the caller asks too often.
	TooManyRequests Reason = "TooManyRequests"
	// TooLarge means that the broker cannot write what the request says: its detail has the
	// figures.
	TooLarge Reason = "TooLarge"
	// ClusterDenied means that an administrator shut the caller's cluster out.
	ClusterDenied Reason = "ClusterDenied"
	// ClusterNotApproved means that only approved clusters take part, and the
	// caller's is none.
	ClusterNotApproved Reason = "ClusterNotApproved"
	// InvalidCSR means that a certificate signing request asks for other than a
	// cluster's certificate may have.
	InvalidCSR Reason = "InvalidCertificateRequest"
	// TokenInvalid means that an enrolment token is unknown, malformed or for
	// another cluster.
	TokenInvalid Reason = "TokenInvalid"
	// TokenExpired means that an enrolment token is too old.
	TokenExpired Reason = "TokenExpired"
	// TokenUsed means that an enrolment token was used with another key.
	TokenUsed Reason = "TokenUsed"
	// IssuanceDenied means that an approver of certificates said no.
	IssuanceDenied Reason = "IssuanceDenied"
	// IssuanceFailed means that the issuer could not sign; it may next time.
	IssuanceFailed Reason = "IssuanceFailed"
	// Internal means a defect of the broker; its log knows more.
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

// HTTPStatus of the problem document for r; 500 for a reason nobody knows.
func (r Reason) HTTPStatus() int {
	if s, ok := statusOf[r]; ok {
		return s
	}
	return http.StatusInternalServerError
}

// Error is a considered answer that is not yes.
type Error struct {
	// Reason is for machines.
	Reason Reason
	// Detail is for people: what, which object, which value, what to do.
	Detail string
	// RetryAfter is when trying again makes sense; 0 if that is not known.
	RetryAfter time.Duration
	// Candidates explains a NoCandidate: the best ten, nearest first.
	Candidates []v1.Candidate
	// Rejected counts a NoCandidate's candidates by reason.
	Rejected map[string]int32
	// Figure names what of its budget the caller has used up; "" where no budget stopped it.
	// It stays in the broker.
	Figure string
}

// New makes an Error with a formatted detail.
func New(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Detail }

// Temporary says that the same call may succeed later though nothing changed.
func (e *Error) Temporary() bool {
	return e.Reason == Unavailable || e.Reason == Recovering || e.Reason == QueueFull || e.Reason == Awaiting || e.Reason == TooManyRequests || e.Reason == IssuanceFailed || e.Reason == Internal
}

// OfCaller says that the refusal is about who asks. It says nothing of what was asked
// about: a reservation that is held is held all the same.
func (e *Error) OfCaller() bool {
	return e.Reason == Forbidden || e.Reason == ClusterDenied || e.Reason == ClusterNotApproved
}

// ReasonOf returns the reason of the first Error in err's chain, "" if none.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}
