// Package patch changes and deletes objects that several programs write.
package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// IfUnchanged returns a patch with the changes that the caller made to an object since the copy in
// the parameter before. The API server refuses the patch with a conflict if another writer has
// changed the object since then.
func IfUnchanged(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// afterConflict is the pause before the repetition of a reconcile that failed with a conflict.
// Either another writer was faster, or the cache was outdated.
const afterConflict = 50 * time.Millisecond

// Requeue returns the result of a reconcile. The next reconcile is due after the delay in the
// parameter again; 0 means that none is due. A conflict is not returned as an error, so it does not
// appear in the log, and the reconcile is repeated soon.
func Requeue(again time.Duration, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// Soonest returns the shortest of several delays, where 0 means never.
func Soonest(delays ...time.Duration) time.Duration {
	delays = slices.DeleteFunc(delays, func(d time.Duration) bool { return d <= 0 })
	if len(delays) == 0 {
		return 0
	}
	return slices.Min(delays)
}

// AddFinalizer adds a finalizer if it is missing, and reports whether it added it. It returns a
// conflict if another writer has changed the object, because that change may be the deletion of the
// object.
func AddFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) (added bool, err error) {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(obj, finalizer) {
		return false, nil
	}
	return true, c.Patch(ctx, obj, IfUnchanged(before))
}

// RemoveFinalizer removes a finalizer if the object has it. It returns nil if the object is
// already gone.
func RemoveFinalizer(ctx context.Context, c client.Client, obj client.Object, finalizer string) error {
	before := obj.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(obj, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(c.Patch(ctx, obj, IfUnchanged(before)))
}

// Delete deletes an object, and then removes the given finalizer. If the process crashes between
// these two steps, the finalizer keeps the object, and the controller calls Delete again. Changes
// by other writers cause no conflict. It returns nil if the object is already gone.
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

// Status writes the status of obj if it differs from that of before, an earlier copy of obj, and
// reports whether it has written it. It returns a conflict if another writer has changed the object
// since.
func Status(ctx context.Context, c client.Client, obj, before client.Object) (written bool, err error) {
	return writeStatus(ctx, c, obj, before, IfUnchanged(before))
}

// StatusFields does what Status does for an object whose status has several writers: it writes only
// the changed fields, and never returns a conflict.
func StatusFields(ctx context.Context, c client.Client, obj, before client.Object) (written bool, err error) {
	return writeStatus(ctx, c, obj, before, client.MergeFrom(before))
}

func writeStatus(ctx context.Context, c client.Client, obj, before client.Object, changes client.Patch) (bool, error) {
	if equality.Semantic.DeepEqual(obj, before) {
		return false, nil
	}
	if err := c.Status().Patch(ctx, obj, changes); err != nil {
		return false, fmt.Errorf("write the status of %s %q: %w", reflect.TypeOf(obj).Elem().Name(), client.ObjectKeyFromObject(obj), err)
	}
	return true, nil
}
