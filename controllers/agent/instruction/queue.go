// Package instruction holds what the controllers of ProviderInstructions and of
// ReservationInstructions share: how instructions are enqueued, how a reconcile begins, and how a
// problem with the broker's receipts is shown.
package instruction

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// firstRetry and lastRetry are the shortest and the longest pause after an error, which is usually
// temporary. The pause doubles with each error. lastRetry is shorter than the 10 s for which the
// broker by default waits for a provider's answer to a placement.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// Retries returns a rate limiter for a controller whose errors are mostly temporary. Its pauses
// never exceed lastRetry, while those of controller-runtime's default limiter grow to 1000 s.
func Retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}

// Queue enqueues instructions of one kind in one namespace by name.
type Queue struct {
	client    client.Client
	namespace string
	due       chan event.TypedGenericEvent[string]
}

// NewQueue returns a queue for the instructions in a namespace. It reads them with c.
func NewQueue(c client.Client, namespace string) *Queue {
	return &Queue{client: c, namespace: namespace, due: make(chan event.TypedGenericEvent[string], 64)}
}

// Add enqueues an instruction by name. It may be called from any goroutine, and blocks while 64
// names are still waiting to be taken from the queue.
func (q *Queue) Add(name string) { q.due <- event.TypedGenericEvent[string]{Object: name} }

// Due returns the channel of the names that were added. Watch connects it to a controller.
func (q *Queue) Due() <-chan event.TypedGenericEvent[string] { return q.due }

// Request returns the reconcile request for an instruction.
func (q *Queue) Request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: q.namespace, Name: name}}
}

// Named returns the reconcile request for an instruction, as a list for controller-runtime.
func (q *Queue) Named(_ context.Context, name string) []reconcile.Request {
	return []reconcile.Request{q.Request(name)}
}

// Placed returns the reconcile request for the instruction of concern.Placement, which it reads into inst; nil if
// there is none.
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

// Matching returns reconcile requests for the instructions for which match returns true. It reads
// all instructions into list, whose items must be of type T. If that fails, it logs the error and
// returns nil.
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
		ctrl.LoggerFrom(ctx).Error(err, "listing instructions failed", "type", fmt.Sprintf("%T", list))
		return nil
	}
	return requests
}

// Watch makes a controller reconcile the instructions that were passed to Add.
func (q *Queue) Watch(b *builder.Builder) {
	b.WatchesRawSource(source.TypedChannel(q.due, handler.TypedEnqueueRequestsFromMapFunc(q.Named)))
}

// WatchLiqo makes a controller watch objects of Liqo and the channel peers, which receives the IDs
// of peers. The functions concerned and withPeer map an object and a peer to reconcile requests.
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

// AwaitInformers creates the cache's informers for all given kinds before any watch starts, because
// the functions that map the first events to instructions already read the cache.
func AwaitInformers(mgr manager.Manager, kinds ...client.Object) error {
	for _, kind := range kinds {
		if _, err := mgr.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

// Claim reads an instruction into inst and adds the finalizer that keeps the object until its
// peering has been removed. It returns false if the instruction needs no work: it is in another
// namespace, does not exist, or was deleted before it got the finalizer.
func (q *Queue) Claim(ctx context.Context, req ctrl.Request, inst client.Object) (bool, error) {
	if req.Namespace != q.namespace {
		return false, nil
	}
	if err := q.client.Get(ctx, req.NamespacedName, inst); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if controllerutil.ContainsFinalizer(inst, agentv1alpha1.PeeringFinalizer) {
		return true, nil
	}
	if inst.GetDeletionTimestamp() != nil {
		return false, nil
	}
	_, err := patch.AddFinalizer(ctx, q.client, inst, agentv1alpha1.PeeringFinalizer)
	return err == nil, err
}

// DescribeReceipt sets the condition ReceiptValid to false if there is a problem with the broker's
// last receipt. Otherwise it removes the condition.
func DescribeReceipt(conditions *[]metav1.Condition, problem string, generation int64, now time.Time) {
	if problem == "" {
		meta.RemoveStatusCondition(conditions, agentv1alpha1.ConditionReceiptValid)
		return
	}
	message.SetCondition(conditions, agentv1alpha1.ConditionReceiptValid, metav1.ConditionFalse, agentv1alpha1.ReasonReceiptRefused,
		problem+"; the placement stays as it is", generation, now)
}

// RecordReceipt records a Warning event on an instruction when a problem with the broker's last
// receipt appears. conditions are the instruction's present conditions, and before are its previous
// ones.
func RecordReceipt(recorder events.EventRecorder, inst runtime.Object, conditions, before []metav1.Condition) {
	if c := message.ChangedCondition(conditions, before, agentv1alpha1.ConditionReceiptValid); c != nil {
		recorder.Eventf(inst, nil, corev1.EventTypeWarning, c.Reason, "CheckReceipt", "%s", message.Clip(c.Message, message.MaxNote))
	}
}
