// Package book triggers the controllers that show the broker's book in objects.
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

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
)

// Watch is what a controller shows of the book.
type Watch struct {
	// Feed announces sessions.
	Feed *broker.Feed
	// Changed waits for the names of entries that changed since the last call.
	Changed func(context.Context) ([]string, error)
	// ObjectOf returns the name of the object that shows an entry.
	ObjectOf func(entry string) types.NamespacedName
	// Delay is how long changes of one entry are gathered before its object is written.
	Delay time.Duration
	// All is a list of the objects' type, which Client reads.
	All    client.ObjectList
	Client client.Reader
}

// Source enqueues the objects of entries that change. When a session begins it enqueues all
// objects, because edits may have been missed.
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
