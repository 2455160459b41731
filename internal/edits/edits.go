// Package edits changes objects of this product on behalf of a person. The commands of kubectl broker and the actions of
// the console make the same edits, with the credentials of their user.
package edits

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patch reads an object, calls edit and sends the difference as a patch, so that fields that this version does not know
// stay unchanged. It starts again if the object has changed meanwhile.
func Patch[T client.Object](ctx context.Context, c client.Client, o T, edit func(T) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, ok := o.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", o)
		}
		if err := edit(o); err != nil {
			return err
		}
		return c.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// PatchOrCreate edits an object as Patch does. If the object does not exist, it creates the edited object.
func PatchOrCreate[T client.Object](ctx context.Context, c client.Client, o T, edit func(T) error) error {
	fresh, ok := o.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("%T is no object", o)
	}
	if err := Patch(ctx, c, o, edit); !apierrors.IsNotFound(err) {
		return err
	}
	if err := edit(fresh); err != nil {
		return err
	}
	return c.Create(ctx, fresh)
}
