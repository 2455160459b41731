// Package instruction is what the controllers of ProviderInstructions and ReservationInstructions
// share: how instructions are enqueued, and how a reconcile begins.
package instruction

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// firstRetry and lastRetry bound the pause after an error, which doubles each time. Most errors
// pass by themselves, and a broker that has restarted waits 10 s for an answer (its
// limits.Acknowledge).
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Retries returns the rate limiter of a controller whose errors mostly pass by themselves.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}

// Queue enqueues the instructions of one CRD in one namespace.
type Queue struct {
	client    client.Client
	namespace string
	due       chan event.TypedGenericEvent[string]
}

// NewQueue returns a queue that reads instructions with c.
func NewQueue(c client.Client, namespace string) *Queue {
	return &Queue{client: c, namespace: namespace, due: make(chan event.TypedGenericEvent[string], 64)}
}

// Add enqueues an instruction by name, from any goroutine. It waits while 64 others wait to be
// read.
func (q *Queue) Add(name string) { q.due <- event.TypedGenericEvent[string]{Object: name} }

// Due carries the names that were added.
func (q *Queue) Due() <-chan event.TypedGenericEvent[string] { return q.due }

// Request returns the request for an instruction.
func (q *Queue) Request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: q.namespace, Name: name}}
}

// Named maps a name to the request for that instruction.
func (q *Queue) Named(_ context.Context, name string) []reconcile.Request {
	return []reconcile.Request{q.Request(name)}
}

// Placed returns the request for the placement that an object belongs to, and nothing if there is
// no such instruction. It reads the instruction into inst.
func (q *Queue) Placed(ctx context.Context, concern liqo.Concern, inst client.Object) []reconcile.Request {
	if concern.Placement == "" {
		return nil
	}
	request := q.Request(concern.Placement)
	if q.client.Get(ctx, request.NamespacedName, inst) != nil {
		return nil
	}
	return []reconcile.Request{request}
}

// Matching returns requests for the instructions that match. It reads all into list, whose items
// are of type T.
func Matching[T client.Object](ctx context.Context, q *Queue, list client.ObjectList, match func(T) bool) (requests []reconcile.Request) {
	err := q.client.List(ctx, list, client.InNamespace(q.namespace))
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			if inst := item.(T); match(inst) {
				requests = append(requests, q.Request(inst.GetName()))
			}
			return nil
		})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list instructions", "type", fmt.Sprintf("%T", list))
		return nil
	}
	return requests
}

// Watch adds the instructions that are added by name to a controller.
func (q *Queue) Watch(b *builder.Builder) {
	b.WatchesRawSource(source.TypedChannel(q.due, handler.TypedEnqueueRequestsFromMapFunc(q.Named)))
}

// WatchLiqo makes a controller watch Liqo's objects and the channel peers, whose events name a peer.
func WatchLiqo(b *builder.Builder, objects []client.Object, concerned handler.MapFunc, peers <-chan event.TypedGenericEvent[string], withPeer handler.TypedMapFunc[string, reconcile.Request]) {
	for _, obj := range objects {
		var options []builder.WatchesOption
		if liqo.MetadataOnly(obj) {
			options = append(options, builder.OnlyMetadata)
		}
		b.Watches(obj, handler.EnqueueRequestsFromMapFunc(concerned), options...)
	}
	b.WatchesRawSource(source.TypedChannel(peers, handler.TypedEnqueueRequestsFromMapFunc(withPeer)))
}

// AwaitInformers makes the cache know every kind of object before any watch starts, because the
// first events are mapped to instructions while the watches are still being set up.
func AwaitInformers(mgr manager.Manager, kinds ...client.Object) error {
	for _, kind := range kinds {
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}
