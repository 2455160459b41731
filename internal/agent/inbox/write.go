package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// ErrUnusable wraps the errors of an instruction that a repetition cannot fix: it is malformed,
// contradicts an existing object, or violates the schema.
var ErrUnusable = errors.New("instruction cannot be used")

func wrapUnusable(err error) error { return fmt.Errorf("%w: %w", ErrUnusable, err) }

// expiryTolerance is how far a new expiry may differ from the written one without an update.
// Answers carry remaining times, which never agree exactly.
const expiryTolerance = 2 * time.Second

func metaOf(namespace, name, reservation string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{
			agentv1alpha1.ManagedByLabel:   agentv1alpha1.ManagedByValue,
			agentv1alpha1.ReservationLabel: reservation,
		},
	}
}

// keepExpiry keeps the old expiry if the new one is within the tolerance.
func keepExpiry(old, now *metav1.Time) *metav1.Time {
	if old != nil && now != nil && now.Sub(old.Time).Abs() <= expiryTolerance {
		return old
	}
	return now
}

// patchSpec writes obj if its spec changed. The patch includes the resource version, so a
// concurrent change causes a retry instead of being overwritten.
func patchSpec(ctx context.Context, c client.Client, obj, before client.Object, spec, old any) error {
	if equality.Semantic.DeepEqual(spec, old) {
		return nil
	}
	if err := c.Patch(ctx, obj, patch.IfUnchanged(before)); client.IgnoreNotFound(err) != nil {
		return wrapWriteError(obj.GetName(), err)
	}
	return nil
}

// wrapWriteError wraps the error of a write. Errors that a retry cannot fix become ErrUnusable.
func wrapWriteError(name string, err error) error {
	err = fmt.Errorf("write instruction %q: %w", name, err)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return wrapUnusable(err)
	}
	return err
}
