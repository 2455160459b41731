// Package patch writes changes of an object that others write too.
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

// IfUnchanged returns a patch of what changed since before. The API server refuses it with a
// conflict if somebody else has written the object meanwhile.
func IfUnchanged(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// afterConflict is when a reconcile that lost to another writer, or worked on an old copy from
// the cache, is tried again.
const afterConflict = 50 * time.Millisecond

// Requeue returns the result of a reconcile that is due again after some time, 0 for never.
// After a conflict it is tried again soon, without an error in the log.
func Requeue(again time.Duration, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// AddFinalizer writes a finalizer that is missing, and reports whether it was. It fails if
// somebody else has written the object meanwhile: it may have been deleted.
func AddFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) (added bool, err error) {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(obj, finalizer) {
		return false, nil
	}
	return true, c.Patch(ctx, obj, IfUnchanged(before))
}

// RemoveFinalizer takes a finalizer off an object that may be gone already.
func RemoveFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(obj, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(c.Patch(ctx, obj, IfUnchanged(before)))
}

// Delete deletes an object and takes the finalizer off. Deleting comes first: after a crash
// in between, the finalizer still brings its controller back here. Other writers do not
// hinder it.
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
