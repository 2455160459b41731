// Package webhooks contains what the webhooks of the broker (webhooks/broker) and of the agent
// (webhooks/agent) have in common.
//
// The validating webhooks report mistakes to the author of an object early. Broker and agent check
// the same again, so nothing breaks if a webhook is bypassed or unavailable.
package webhooks

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Verdict is the result of validating one object: errors, which refuse it, and warnings about
// likely mistakes.
type Verdict struct {
	Errors   field.ErrorList
	Warnings []string
}

// Warn adds a warning.
func (v *Verdict) Warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// Refuse adds errors, so that the object is refused.
func (v *Verdict) Refuse(errs ...*field.Error) { v.Errors = append(v.Errors, errs...) }

// Kind defines how objects of one CRD are validated.
type Kind[T client.Object] struct {
	// Spec returns the spec of an object. Every update that does not change it is admitted.
	Spec func(T) any
	// Judge validates an object that is new or whose spec has changed. If Judge returns an error,
	// the object could not be validated, and the webhook refuses the object.
	Judge func(context.Context, T) (Verdict, error)
}

// Register registers the validating webhook for a CRD at the path that controller-runtime
// generates, /validate-<group>-<version>-<kind>.
func Register[T client.Object](mgr ctrl.Manager, object T, kind Kind[T]) error {
	return ctrl.NewWebhookManagedBy(mgr, object).WithValidator(&handler[T]{Kind: kind, scheme: mgr.GetScheme()}).
		WithContextFunc(withPatience).Complete()
}

// handler validates objects. It never refuses a deletion, or an update that changes only metadata
// or status.
type handler[T client.Object] struct {
	Kind[T]
	scheme *runtime.Scheme
}

// ValidateCreate implements admission.Validator.
func (h *handler[T]) ValidateCreate(ctx context.Context, obj T) (admission.Warnings, error) {
	return h.validate(ctx, obj)
}

// ValidateUpdate implements admission.Validator.
func (h *handler[T]) ValidateUpdate(ctx context.Context, old, obj T) (admission.Warnings, error) {
	if obj.GetDeletionTimestamp() != nil || equality.Semantic.DeepEqual(h.Spec(old), h.Spec(obj)) {
		return nil, nil
	}
	return h.validate(ctx, obj)
}

// ValidateDelete implements admission.Validator.
func (h *handler[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

func (h *handler[T]) validate(ctx context.Context, obj T) (admission.Warnings, error) {
	verdict, err := h.Judge(ctx, obj)
	if err != nil {
		return nil, err
	}
	if len(verdict.Errors) == 0 {
		return verdict.Warnings, nil
	}
	gvk, err := apiutil.GVKForObject(obj, h.scheme)
	if err != nil {
		return nil, err
	}
	return verdict.Warnings, apierrors.NewInvalid(gvk.GroupKind(), obj.GetName(), verdict.Errors)
}
