// Package webhooks serves the validating webhooks of the product: what is common
// to those of the broker (webhooks/broker) and of the agent (webhooks/agent).
//
// A validating webhook only says earlier, and to whoever is writing, what broker and agent
// refuse anyway: one that is bypassed or away changes nothing of what they do.
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

// Verdict is what is said of one object: what is wrong with it, and what its
// author may not have meant.
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

// Kind is how objects of one kind are judged.
type Kind[T client.Object] struct {
	// Spec of an object; an update that leaves it as it was is never judged.
	Spec func(T) any
	// Judge an object that is made, or whose spec is changed. Its error means that
	// no verdict could be found, and refuses too.
	Judge func(context.Context, T) (Verdict, error)
}

// Register serves a kind at controller-runtime's path for it,
// /validate-<group>-<version>-<kind>.
func Register[T client.Object](mgr ctrl.Manager, object T, kind Kind[T]) error {
	return ctrl.NewWebhookManagedBy(mgr, object).WithValidator(&handler[T]{Kind: kind, scheme: mgr.GetScheme()}).Complete()
}

// handler lets pass what must never be held up: the end of an object, its
// finalizers, its status.
type handler[T client.Object] struct {
	Kind[T]
	scheme *runtime.Scheme
}

// ValidateCreate implements admission.Validator.
func (h *handler[T]) ValidateCreate(ctx context.Context, obj T) (admission.Warnings, error) {
	return h.judge(ctx, obj)
}

// ValidateUpdate implements admission.Validator.
func (h *handler[T]) ValidateUpdate(ctx context.Context, old, obj T) (admission.Warnings, error) {
	if obj.GetDeletionTimestamp() != nil || equality.Semantic.DeepEqual(h.Spec(old), h.Spec(obj)) {
		return nil, nil
	}
	return h.judge(ctx, obj)
}

// ValidateDelete implements admission.Validator.
func (h *handler[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

func (h *handler[T]) judge(ctx context.Context, obj T) (admission.Warnings, error) {
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
