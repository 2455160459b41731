// Package patch changes objects that have several writers.
package patch

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// IfUnchanged returns a patch with the changes since before. The API server refuses it with a
// conflict if another writer has changed the object meanwhile.
func IfUnchanged(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// afterConflict is the pause before a reconcile is retried that lost to another writer or read a
// stale copy from the cache.
const afterConflict = 50 * time.Millisecond

// Requeue returns the result of a reconcile that is due after the duration again, 0 for never. A
// conflict is retried soon and does not appear in the log as an error.
func Requeue(again time.Duration, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// AddFinalizer adds a finalizer if it is missing, and reports whether it was. It fails if another
// writer has changed the object meanwhile, because the object may have been deleted.
func AddFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) (added bool, err error) {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(obj, finalizer) {
		return false, nil
	}
	return true, c.Patch(ctx, obj, IfUnchanged(before))
}

// RemoveFinalizer removes a finalizer. It ignores an object that is already gone.
func RemoveFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(obj, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(c.Patch(ctx, obj, IfUnchanged(before)))
}

// Delete deletes an object and then removes the finalizer. In this order, the finalizer makes the
// controller continue here after a crash in between. Concurrent writers cause no conflict.
func Delete(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	uid := obj.GetUID()
	if obj.GetDeletionTimestamp() == nil {
		if err := c.Delete(ctx, obj, client.Preconditions{UID: &uid}); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	left := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "finalizers": append([]string{}, left...)}})
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, body)))
}
