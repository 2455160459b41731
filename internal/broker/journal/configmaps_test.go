package journal

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestClassify(t *testing.T) {
	maps := schema.GroupResource{Resource: "configmaps"}
	send := func(op string, err error) error {
		return &url.Error{Op: "Put", URL: "https://api", Err: &net.OpError{Op: op, Net: "tcp", Err: err}}
	}
	status := func(code int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code}}
	}
	tests := map[string]struct {
		err error
		// want is nil if the outcome is unknown.
		want error
	}{
		"no such object":                             {apierrors.NewNotFound(maps, "x"), ErrNotFound},
		"object exists":                              {apierrors.NewAlreadyExists(maps, "x"), ErrExists},
		"another resourceVersion":                    {apierrors.NewConflict(maps, "x", nil), ErrConflict},
		"not allowed":                                {apierrors.NewForbidden(maps, "x", nil), ErrUnavailable},
		"not authenticated":                          {apierrors.NewUnauthorized("who"), ErrUnavailable},
		"not valid":                                  {apierrors.NewInvalid(schema.GroupKind{}, "x", nil), ErrUnavailable},
		"too large":                                  {apierrors.NewRequestEntityTooLargeError("big"), ErrUnavailable},
		"too many requests":                          {apierrors.NewTooManyRequests("later", 1), ErrUnavailable},
		"connection refused":                         {send("dial", syscall.ECONNREFUSED), ErrUnavailable},
		"no such host":                               {send("dial", &net.DNSError{IsNotFound: true}), ErrUnavailable},
		"timeout while connecting":                   {send("dial", context.DeadlineExceeded), ErrUnavailable},
		"connection reset after sending":             {send("read", syscall.ECONNRESET), nil},
		"connection reset while sending":             {send("write", syscall.EPIPE), nil},
		"connection closed":                          {&url.Error{Op: "Put", Err: io.ErrUnexpectedEOF}, nil},
		"timeout after sending":                      {&url.Error{Op: "Put", Err: context.DeadlineExceeded}, nil},
		"server says it timed out":                   {apierrors.NewTimeoutError("etcd", 1), nil},
		"server says it timed out on its own store":  {apierrors.NewServerTimeout(maps, "update", 1), nil},
		"etcd gave the server no answer":             {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), nil},
		"server or proxy is unavailable":             {apierrors.NewServiceUnavailable("busy"), nil},
		"proxy gave up":                              {status(http.StatusBadGateway), nil},
		"proxy gave up waiting for the request body": {status(http.StatusRequestTimeout), nil},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			got := classifyError(test.err)
			if !errors.Is(got, test.err) {
				t.Errorf("%v does not wrap the cause", got)
			}
			if test.want == nil && isRefusal(got) {
				t.Errorf("got %v, want an unknown outcome", got)
			}
			if test.want != nil && !errors.Is(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
