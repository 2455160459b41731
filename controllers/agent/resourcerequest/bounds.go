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

// checkBounds checks a new request against the LimitRanges and ResourceQuotas of its namespace,
// even if the webhook has checked it before. A request outside these bounds fails. A request that
// was admitted stays admitted when the bounds change. quoteName is passed to recordAsked.
func (r *Reconciler) checkBounds(ctx context.Context, rr *agentv1alpha1.ResourceRequest, quoteName string) error {
	// The lock covers the check and its result: of two requests for the same remaining room, the
	// second one must see that the first one was admitted.
	r.admission.Lock()
	defer r.admission.Unlock()
	errs, err := r.outsideBounds(ctx, rr)
	if err != nil {
		return err
	}
	if len(errs) == 0 {
		return r.recordAsked(ctx, rr, quoteName)
	}
	before := rr.DeepCopy()
	r.editStatus(rr).setAbsent(absentFailed(agentv1alpha1.ReasonOutsideBounds), errs.ToAggregate().Error())
	return r.saveStatus(ctx, rr, before)
}

func (r *Reconciler) outsideBounds(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (field.ErrorList, error) {
	b, err := bounds.Read(ctx, r.options.Reader, rr.Namespace)
	if err != nil {
		return nil, err
	}
	others, err := r.listAdmitted(ctx, rr, b)
	if err != nil {
		return nil, err
	}
	return b.Check(rr, others), nil
}

// listAdmitted lists the requests and Quotes that count against the quotas of a request's
// namespace. It reads from the API server, because the cache may miss the latest ones. It returns
// nil if no quota limits requests.
func (r *Reconciler) listAdmitted(ctx context.Context, rr *agentv1alpha1.ResourceRequest, b bounds.Bounds) ([]agentv1alpha1.ResourceRequest, error) {
	if !b.Sums() {
		return nil, nil
	}
	var list agentv1alpha1.ResourceRequestList
	if err := r.options.Reader.List(ctx, &list, client.InNamespace(rr.Namespace)); err != nil {
		return nil, fmt.Errorf("listing resource requests of namespace %q: %w", rr.Namespace, err)
	}
	quotes, err := bounds.ReadQuotes(ctx, r.options.Reader, rr.Namespace)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(bounds.AddQuotes(list.Items, quotes, rr.Spec.Quote), func(o agentv1alpha1.ResourceRequest) bool { return !o.Status.Asked }), nil
}
