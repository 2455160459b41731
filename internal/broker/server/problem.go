package server

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// statusError is a refusal with an HTTP status of its own, which replaces the status of its reason.
type statusError struct {
	status int
	fault  *fault.Error
}

// statusCallerGone is the status in logs and metrics of a request whose caller has gone.
const statusCallerGone = 499

func (e *statusError) Error() string { return e.fault.Error() }
func (e *statusError) Unwrap() error { return e.fault }

// writeProblem answers with err as an RFC 9457 problem document. The text of an error that is not a *fault.Error goes only
// into the log.
func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		f = fault.New(fault.Internal, "the broker's log says more")
	}
	status := f.Reason.HTTPStatus()
	if s, ok := errors.AsType[*statusError](err); ok {
		status = s.status
	}
	gone := errors.Is(err, context.Canceled) && r.Context().Err() != nil || isCut(err)
	if gone {
		// The caller, or a proxy, may have closed only its sending side and still read: tell it to retry.
		f = fault.New(fault.Unavailable, "the connection ended before the answer: retry")
		status = f.Reason.HTTPStatus()
	}
	if x := exchangeOf(r.Context()); x != nil {
		x.reason, x.err, x.gone = f.Reason, err, gone
	}
	body, err := json.Marshal(v1.Problem{
		Type:       "about:blank",
		Title:      http.StatusText(status),
		Status:     status,
		Detail:     f.Detail,
		Reason:     string(f.Reason),
		Candidates: f.Candidates,
		Rejected:   f.Rejected,
	})
	if err != nil {
		panic(err) // cannot happen: the document has only strings and numbers
	}
	stopReading(w, r)
	w.Header().Set("Content-Type", "application/problem+json")
	if after := retryAfter(f); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(after))
	}
	w.WriteHeader(status)
	// An error means that the caller has gone.
	_, _ = w.Write(body)
}

// isCut reports whether writing an answer failed because the connection has ended.
func isCut(err error) bool {
	cut, ok := errors.AsType[*net.OpError](err)
	return ok && cut.Op == "write"
}

// retryAfter returns the seconds for the header Retry-After; 0 if the answer does not need this header. Answers with
// the reason Unavailable or TooManyRequests always have it.
func retryAfter(f *fault.Error) int {
	wait := f.RetryAfter
	if wait <= 0 && (f.Reason == fault.Unavailable || f.Reason == fault.TooManyRequests) {
		wait = time.Second
	}
	return int(math.Ceil(wait.Seconds()))
}
