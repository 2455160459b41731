package resourcerequest

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
)

// admit holds a request to the bounds of its namespace, whether a webhook did so
// before or not, and then lets it be asked for; or it fails for good. A request
// that was admitted stays so, whatever becomes of the bounds.
func (r *Reconciler) admit(ctx context.Context, rr *agentv1alpha1.ResourceRequest) error {
	// One after the other: of two requests that fit only alone, the second must see
	// that the first was admitted.
	r.admission.Lock()
	defer r.admission.Unlock()
	errs, err := r.outsideBounds(ctx, rr)
	if err != nil {
		return err
	}
	if len(errs) == 0 {
		return r.recordAsked(ctx, rr)
	}
	before := rr.DeepCopy()
	r.editor(rr).failed(agentv1alpha1.ReasonOutsideBounds, errs.ToAggregate().Error()+"\n"+retryAdvice)
	return r.save(ctx, rr, before)
}

// outsideBounds is what a request exceeds, new or edited.
func (r *Reconciler) outsideBounds(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (field.ErrorList, error) {
	b, err := bounds.Read(ctx, r.options.Reader, rr.Namespace)
	if err != nil {
		return nil, err
	}
	others, err := r.admitted(ctx, rr.Namespace, b)
	if err != nil {
		return nil, err
	}
	return b.Check(rr, others), nil
}

// admitted lists the requests of a namespace that count beside a new one, from the
// API server: the cache may not show the last one.
func (r *Reconciler) admitted(ctx context.Context, namespace string, b bounds.Bounds) ([]agentv1alpha1.ResourceRequest, error) {
	if !b.Sums() {
		return nil, nil
	}
	var list agentv1alpha1.ResourceRequestList
	if err := r.options.Reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing resource requests of namespace %q: %w", namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(o agentv1alpha1.ResourceRequest) bool { return !o.Status.Asked }), nil
}
