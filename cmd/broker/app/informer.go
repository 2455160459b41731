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

// knockEvery is how soon an API server that nobody could connect to is tried again. An
// informer by itself would wait up to a minute, and all that the broker shows with it.
const knockEvery = 500 * time.Millisecond

// newInformer makes informers that go on as soon as the API server is back.
func newInformer(from toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(knocking(from), object, resync, indexers)
}

func knocking(from toolscache.ListerWatcher) *toolscache.ListWatch {
	inner := toolscache.ToListerWatcherWithContext(from)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return knock(ctx, func() (runtime.Object, error) { return inner.ListWithContext(ctx, options) })
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return knock(ctx, func() (watch.Interface, error) { return inner.WatchWithContext(ctx, options) })
		},
	}
}

// knock repeats a call for which there was no connection, and no other.
func knock[T any](ctx context.Context, call func() (T, error)) (T, error) {
	for {
		answer, err := call()
		if !neverConnected(err) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(wait.Jitter(knockEvery, 0.2)):
		}
	}
}

func neverConnected(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}
