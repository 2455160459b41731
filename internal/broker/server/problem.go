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

// statusError is a refusal by HTTP itself, for which the broker has no reason.
type statusError struct {
	status int
	fault  *fault.Error
}

// statusCallerGone is what logs and metrics say of a request that nobody waits for
// any more.
const statusCallerGone = 499

func (e *statusError) Error() string { return e.fault.Error() }
func (e *statusError) Unwrap() error { return e.fault }

// refuse answers with err as an RFC 9457 problem document. Of an error that is not
// meant for the caller the document says nothing; the request's log line has it.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
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
		// A connection may be closed in one direction alone, and what is between caller and
		// broker may do so: whoever still reads is to ask again.
		f = fault.New(fault.Unavailable, "the connection ended before there was an answer: ask again")
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
		panic(err) // strings and numbers alone
	}
	stopReading(w, r)
	w.Header().Set("Content-Type", "application/problem+json")
	if after := retryAfter(f); after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(after))
	}
	w.WriteHeader(status)
	// A caller that went away is no matter of the server.
	_, _ = w.Write(body)
}

// isCut reports whether an answer could not be written because its connection has ended.
func isCut(err error) bool {
	cut, ok := errors.AsType[*net.OpError](err)
	return ok && cut.Op == "write"
}

// retryAfter in whole seconds, 0 for none. A refusal for load always has one.
func retryAfter(f *fault.Error) int {
	wait := f.RetryAfter
	if wait <= 0 && (f.Reason == fault.Unavailable || f.Reason == fault.TooManyRequests) {
		wait = time.Second
	}
	return int(math.Ceil(wait.Seconds()))
}
