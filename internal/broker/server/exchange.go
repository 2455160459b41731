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

// exchange is one request and its answer, as its log line tells it.
type exchange struct {
	operation string
	cluster   string
	reason    fault.Reason
	err       error
	stack     []byte
	// gone is true where the caller did not wait for the answer.
	gone bool
}

const (
	// maxCursor is as in the API description.
	maxCursor = 128
	// maxLogged is how much of what is wrong with a request its log line tells: callers
	// have a say in its length.
	maxLogged = 2048
)

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// callerOf is the cluster that asks. It is never empty behind serve.
func callerOf(ctx context.Context) string {
	if x := exchangeOf(ctx); x != nil {
		return x.cluster
	}
	return ""
}

// serve is the one way to every operation: it knows the caller, keeps it within
// its limits, survives panics, and accounts for the answer.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	start := s.clock.Now()
	x := &exchange{}
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
	if r.ContentLength != 0 {
		r.Body = &incoming{ReadCloser: r.Body, now: s.clock.Now}
	}
	a := &answer{ResponseWriter: w}
	defer func() { s.account(r, x, a, s.clock.Since(start)) }()
	defer rescue(a, r)

	handler, pattern := s.mux.Handler(r)
	x.operation = s.operationOf(pattern)
	var err error
	if x.cluster, err = s.identify(r); err != nil {
		// The next certificate comes with the next connection.
		a.Header().Set("Connection", "close")
		refuse(a, r, err)
		return
	}
	if !s.admitsLate {
		done, err := s.limits.admit(x.cluster, start)
		if err != nil {
			refuse(a, r, err)
			return
		}
		defer done()
	}
	if pattern == "" {
		refuseRoute(a, r, handler)
		return
	}
	if !s.description.takesBody(pattern) {
		if err := s.description.dropBody(a, r); err != nil {
			refuse(a, r, err)
			return
		}
	}
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

// refuseRoute says as a problem document what the mux says as text.
func refuseRoute(w http.ResponseWriter, r *http.Request, mux http.Handler) {
	said := &answer{ResponseWriter: silent{header: w.Header()}}
	mux.ServeHTTP(said, r)
	w.Header().Del("X-Content-Type-Options")
	err := fault.New(fault.NotFound, "no such path: %s lists what there is", documentPath)
	if said.code() == http.StatusMethodNotAllowed {
		err = fault.New(fault.Invalid, "method %s is not served here: use %s", r.Method, w.Header().Get("Allow"))
	}
	refuse(w, r, &statusError{said.code(), err})
}

// silent keeps headers and drops the rest.
type silent struct{ header http.Header }

func (s silent) Header() http.Header       { return s.header }
func (silent) Write(b []byte) (int, error) { return len(b), nil }
func (silent) WriteHeader(int)             {}

// rescue turns a panic into an answer. Where one was begun already the connection
// is cut, so that nobody takes it for whole.
func rescue(a *answer, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	x := exchangeOf(r.Context())
	x.stack = debug.Stack()
	if a.status == 0 {
		refuse(a, r, fmt.Errorf("panic: %v", p))
		return
	}
	x.reason, x.err = fault.Internal, fmt.Errorf("panic: %v", p)
	panic(http.ErrAbortHandler)
}

// account writes the request's one log line. Bodies and headers are not in it.
func (s *Server) account(r *http.Request, x *exchange, a *answer, took time.Duration) {
	code := a.code()
	if x.gone {
		code = statusCallerGone
	}
	s.metrics.observe(x.operation, code, took)
	s.noteRefusal(x)
	suppressed, ok := s.limits.mayLog(x.cluster, s.clock.Now())
	if !ok && x.reason != fault.Internal {
		return
	}
	pairs := []any{"method", r.Method, "operation", x.operation, "cluster", x.cluster,
		"status", code, "duration", took.Round(time.Microsecond).String()}
	if x.reason != "" {
		pairs = append(pairs, "reason", x.reason)
	}
	if suppressed > 0 {
		pairs = append(pairs, "unlogged", suppressed)
	}
	switch {
	case x.gone:
		s.log.V(1).Info("Request was given up by its caller", pairs...)
	case x.reason == fault.Internal:
		if x.stack != nil {
			pairs = append(pairs, "stack", string(x.stack))
		}
		s.log.Error(x.err, "Request failed", pairs...)
	case x.err != nil:
		s.log.Info("Request refused", append(pairs, "detail", message.Clip(x.err.Error(), maxLogged))...)
	case r.Method == http.MethodGet || x.operation == "publishAdvertisement":
		// What agents repeat every few seconds.
		s.log.V(1).Info("Request served", pairs...)
	default:
		s.log.Info("Request served", pairs...)
	}
}

// answer remembers its status.
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

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) code() int {
	if a.status == 0 {
		return http.StatusOK
	}
	return a.status
}
