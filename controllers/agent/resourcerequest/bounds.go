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

// checkBounds checks a request against the bounds of its namespace, even if a webhook did so before.
// A request outside the bounds fails for good. An admitted request stays admitted when the
// bounds change.
func (r *Reconciler) checkBounds(ctx context.Context, rr *agentv1alpha1.ResourceRequest) error {
	// Requests are admitted one at a time. If two requests fit only one at a time, the second
	// check must see the first admission.
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
	r.editStatus(rr).setFailed(agentv1alpha1.ReasonOutsideBounds, errs.ToAggregate().Error()+"\n"+retryAdvice)
	return r.saveStatus(ctx, rr, before)
}

// outsideBounds returns the bounds that a new or edited request exceeds.
func (r *Reconciler) outsideBounds(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (field.ErrorList, error) {
	b, err := bounds.Read(ctx, r.options.Reader, rr.Namespace)
	if err != nil {
		return nil, err
	}
	others, err := r.listAdmitted(ctx, rr.Namespace, b)
	if err != nil {
		return nil, err
	}
	return b.Check(rr, others), nil
}

// listAdmitted lists the requests of a namespace that count in addition to a new one. It reads them
// from the API server, because the cache may miss the latest.
func (r *Reconciler) listAdmitted(ctx context.Context, namespace string, b bounds.Bounds) ([]agentv1alpha1.ResourceRequest, error) {
	if !b.Sums() {
		return nil, nil
	}
	var list agentv1alpha1.ResourceRequestList
	if err := r.options.Reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing resource requests of namespace %q: %w", namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(o agentv1alpha1.ResourceRequest) bool { return !o.Status.Asked }), nil
}
