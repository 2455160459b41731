package app

import (
	"context"
	"errors"
	"net"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// redialInterval is the pause before the broker tries again to connect to an unreachable API
// server. Informers by themselves pause for up to a minute, in which the broker would miss changes
// although the API server is back.
const redialInterval = 500 * time.Millisecond

// newInformer creates an informer that reconnects soon after the API server is back, see
// redialInterval.
func newInformer(from toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(retryingDial(from), object, resync, indexers)
}

func retryingDial(from toolscache.ListerWatcher) *toolscache.ListWatch {
	inner := toolscache.ToListerWatcherWithContext(from)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return retryDial(ctx, func() (runtime.Object, error) { return inner.ListWithContext(ctx, options) })
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return retryDial(ctx, func() (watch.Interface, error) { return inner.WatchWithContext(ctx, options) })
		},
	}
}

// retryDial repeats a call until it connects or ctx ends. It returns every error that is not a
// failure to connect.
func retryDial[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		answer, err := call()
		if !isDialError(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(wait.Jitter(redialInterval, 0.2)):
		}
	}
}

func isDialError(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
