// Package book enqueues the objects in which controllers show the broker's book. The book is the
// broker's state in memory: the clusters and reservations, as recorded in the journal.
package book

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/feed"
)

// Watch maps entries of the broker's state, such as reservations, to the objects in which a
// controller shows them.
type Watch struct {
	// Feed says when this replica begins to lead, and which entries change.
	Feed *feed.Feed
	// Changed waits until entries have changed since its last call, and returns their names.
	Changed func(context.Context) ([]string, error)
	// ObjectOf returns the name of the object that shows an entry.
	ObjectOf func(entry string) types.NamespacedName
	// Delay is how long the controller waits after a change of an entry, so that it writes several
	// changes at once.
	Delay time.Duration
	// All is an empty list of the objects' type. Client reads the objects.
	All    client.ObjectList
	Client client.Reader
}

// Source returns a source that enqueues the object of each entry that changes. When this replica
// begins to lead, the source enqueues all objects, because users may have edited them while no
// replica led.
func (w Watch) Source() source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go w.Feed.Terms(ctx, func() { w.enqueueAll(ctx, queue) })
		go w.enqueueChanged(ctx, queue)
		return nil
	})
}

func (w Watch) enqueueAll(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	list := w.All.DeepCopyObject().(client.ObjectList)
	if err := w.Client.List(ctx, list); err != nil {
		return // reading from the cache fails only while the manager stops
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
		return nil
	})
}

func (w Watch) enqueueChanged(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	for {
		entries, err := w.Changed(ctx)
		if err != nil {
			return // the manager stops
		}
		for _, entry := range entries {
			queue.AddAfter(reconcile.Request{NamespacedName: w.ObjectOf(entry)}, w.Delay)
		}
	}
}
