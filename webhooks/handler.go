// Package webhooks contains what the webhooks of the broker (webhooks/broker) and of the agent
// (webhooks/agent) share.
//
// A validating webhook only reports early, to the author of an object, what broker and agent
// refuse anyway. If it is bypassed or unavailable, they behave the same.
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

// Verdict is the result for one object: its errors, and warnings about likely mistakes.
type Verdict struct {
	Errors   field.ErrorList
	Warnings []string
}

// Warn adds a warning.
func (v *Verdict) Warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// Refuse adds errors.
func (v *Verdict) Refuse(errs ...*field.Error) { v.Errors = append(v.Errors, errs...) }

// Kind defines how objects of one CRD are validated.
type Kind[T client.Object] struct {
	// Spec returns the spec of an object. An update that does not change it is always admitted.
	Spec func(T) any
	// Judge validates a new object, or one whose spec changed. An error means that there is no
	// verdict; the webhook then refuses too.
	Judge func(context.Context, T) (Verdict, error)
}

// Register registers the webhook of a CRD at controller-runtime's path,
// /validate-<group>-<version>-<kind>.
func Register[T client.Object](mgr ctrl.Manager, object T, kind Kind[T]) error {
	return ctrl.NewWebhookManagedBy(mgr, object).WithValidator(&handler[T]{Kind: kind, scheme: mgr.GetScheme()}).Complete()
}

// handler never blocks deletions, finalizers and statuses.
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
