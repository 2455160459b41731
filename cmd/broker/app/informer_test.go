package app

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestInformerContinuesAsSoonAsTheAPIServerIsBack(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	tests := map[string]struct {
		fails error
		away  time.Duration
		want  error
	}{
		"it answers":               {},
		"no listener for a minute": {fails: refused, away: time.Minute},
		"it refuses, which is for the informer to take care of": {fails: errors.ErrUnsupported, away: time.Minute, want: errors.ErrUnsupported},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				lists := retryingDial(&toolscache.ListWatch{
					ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						if time.Since(began) < test.away {
							return nil, test.fails
						}
						return &corev1.ConfigMapList{}, nil
					},
				})
				if _, err := lists.ListWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if late := time.Since(began) - test.away; test.want == nil && late > time.Second {
					t.Errorf("it went on %s after the API server was back", late)
				}
			})
		})
	}
}

func TestStoppedInformerDoesNotRedial(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	lists := retryingDial(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, refused },
	})
	if _, err := lists.ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, refused) {
		t.Errorf("got %v, want %v", err, refused)
	}
}
