package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// exchange holds the fields of the log line about one request and its answer.
type exchange struct {
	operation string
	cluster   string
	reason    fault.Reason
	err       error
	stack     []byte
	// gone is true if the caller did not wait for the answer.
	gone bool
}

const (
	// maxCursor is the length of the longest cursor that the API description allows.
	maxCursor = 128
	// maxLogged limits the length of an error in a log line, because callers influence it.
	maxLogged = 2048
)

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// callerOf returns the calling cluster, or on the enrolment listener the caller's address. It is never empty in a
// handler that serveRequest calls.
func callerOf(ctx context.Context) string {
	if x := exchangeOf(ctx); x != nil {
		return x.cluster
	}
	return ""
}

// serveRequest handles every request: it identifies the caller, enforces its limits, recovers from panics and records the
// answer.
func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request) {
	start := s.opts.Clock.Now()
	x := &exchange{}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	body := &trackedBody{ReadCloser: r.Body, now: s.opts.Clock.Now}
	if r.ContentLength != 0 {
		r.Body = body
	}
	a := &answer{ResponseWriter: w}
	defer func() {
		began := start
		if body.ended.After(start) { // a caller that sends its body slowly does not make the broker slow
			began = body.ended
		}
		s.recordExchange(r, x, a, s.opts.Clock.Since(began))
	}()
	defer recoverPanic(a, r)

	handler, pattern := s.mux.Handler(r)
	x.operation = s.operationOf(pattern)
	var err error
	if x.cluster, err = s.identify(r); err != nil {
		// The connection is closed, because a caller uses a renewed certificate only on a new connection.
		a.Header().Set("Connection", "close")
		writeProblem(a, r, err)
		return
	}
	if !s.admitsLate {
		done, err := s.limits.admitRequest(x.cluster, start)
		if err != nil {
			writeProblem(a, r, err)
			return
		}
		defer done()
	}
	if pattern == "" {
		s.refuseRoute(a, r, handler)
		return
	}
	if s.description.operations[pattern].body == nil {
		if err := s.description.dropBody(a, r); err != nil {
			writeProblem(a, r, err)
			return
		}
	}
	s.await(r.Context())
	if cursor := r.Header.Get(v1.CursorHeader); cursor != "" && len(cursor) <= maxCursor {
		s.witness(x.cluster, cursor)
	}
	s.mux.ServeHTTP(a, r)
}

func (s *Server) operationOf(pattern string) string {
	if o, ok := s.description.operations[pattern]; ok {
		return o.id
	}
	if pattern == documentPattern {
		return "openapi"
	}
	return "none"
}

// refuseRoute replaces the plain-text error of the mux with a problem document.
func (s *Server) refuseRoute(w http.ResponseWriter, r *http.Request, mux http.Handler) {
	muxAnswer := &answer{ResponseWriter: headerRecorder{header: w.Header()}}
	mux.ServeHTTP(muxAnswer, r)
	w.Header().Del("X-Content-Type-Options")
	err := fault.New(fault.NotFound, "%s", s.unknownPath)
	if muxAnswer.statusCode() == http.StatusMethodNotAllowed {
		err = fault.New(fault.Invalid, "method %s is not served here: use %s", r.Method, w.Header().Get("Allow"))
	}
	writeProblem(w, r, &statusError{muxAnswer.statusCode(), err})
}

// headerRecorder keeps headers and discards the rest.
type headerRecorder struct{ header http.Header }

func (s headerRecorder) Header() http.Header       { return s.header }
func (headerRecorder) Write(b []byte) (int, error) { return len(b), nil }
func (headerRecorder) WriteHeader(int)             {}

// recoverPanic turns a panic into an answer. If an answer was already begun, recoverPanic cuts the connection, so
// that the caller does not take the incomplete answer for a complete one.
func recoverPanic(a *answer, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	x := exchangeOf(r.Context())
	x.stack = debug.Stack()
	if a.status == 0 {
		writeProblem(a, r, fmt.Errorf("panic: %v", p))
		return
	}
	x.reason, x.err = fault.Internal, fmt.Errorf("panic: %v", p)
	panic(http.ErrAbortHandler)
}

// recordExchange writes the request's only log line, unless it would repeat a refusal. The line never contains bodies
// or headers.
func (s *Server) recordExchange(r *http.Request, x *exchange, a *answer, took time.Duration) {
	code := a.statusCode()
	if x.gone {
		code = statusCallerGone
	}
	s.metrics.observeRequest(x.operation, code, took)
	s.noteRefusal(x)
	if x.err != nil && x.reason != fault.Internal && s.limits.isRepeated(x.cluster, x.operation+" "+string(x.reason), s.opts.Clock.Now()) {
		return
	}
	pairs := []any{"method", r.Method, "operation", x.operation, "cluster", x.cluster,
		"status", code, "duration", took.Round(time.Microsecond).String()}
	if x.reason != "" {
		pairs = append(pairs, "reason", x.reason)
	}
	switch {
	case x.gone:
		s.opts.Log.V(1).Info("caller gave up the request", pairs...)
	case x.reason == fault.Internal:
		if x.stack != nil {
			pairs = append(pairs, "stack", string(x.stack))
		}
		s.opts.Log.Error(x.err, "request failed", pairs...)
	case x.reason == fault.KeyReused:
		// Every edit of a request begins with this refusal, so it is no sign of a problem.
		s.opts.Log.V(1).Info("request differs from the earlier one with its key", pairs...)
	case x.err != nil:
		s.opts.Log.Info("request refused", append(pairs, "detail", message.Clip(x.err.Error(), maxLogged))...)
	default:
		// This line is only for debugging: the broker itself logs what a request changed.
		s.opts.Log.V(1).Info("request served", pairs...)
	}
}

type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap makes the answer usable with http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) statusCode() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
