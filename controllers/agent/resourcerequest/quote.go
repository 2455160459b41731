package resourcerequest

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// +kubebuilder:rbac:groups=liqo.io,resources=quotes,verbs=get;list;watch

// quoteAdvice tells users what to do about a quote that cannot be taken over.
const quoteAdvice = "Create another Quote and set spec.quote to its name, or remove spec.quote."

// resolveQuote returns the broker's name of the Quote that a new attempt takes over, "" if it takes over none. ready is
// false if the broker must not be asked now. The status then says what the request waits for, or why it failed.
func (r *Reconciler) resolveQuote(ctx context.Context, rr *agentv1alpha1.ResourceRequest) (name string, ready bool, err error) {
	if rr.Spec.Quote == "" {
		return "", true, nil
	}
	before, status := rr.DeepCopy(), r.editStatus(rr)
	q := &agentv1alpha1.Quote{}
	err = r.client.Get(ctx, client.ObjectKey{Namespace: rr.Namespace, Name: rr.Spec.Quote}, q)
	switch {
	case apierrors.IsNotFound(err):
		status.setAbsent(absentAwaitingQuote, fmt.Sprintf("quote %q does not exist in namespace %q; the request waits until it does. %s", rr.Spec.Quote, rr.Namespace, quoteAdvice))
	case err != nil:
		return "", false, fmt.Errorf("read quote %q: %w", rr.Spec.Quote, err)
	case q.DeletionTimestamp != nil || q.IsOver() || r.hasExpired(q):
		status.setAbsent(absentQuoteEnded, describeEndedQuote(q))
	case q.Status.Phase != agentv1alpha1.QuoteHeld:
		status.setAbsent(absentAwaitingQuote, fmt.Sprintf("quote %q is not held yet: %s", q.Name, q.Status.Message))
	default:
		if errs := bounds.CompareQuote(rr, q); len(errs) > 0 {
			status.setAbsent(absentFailed(agentv1alpha1.ReasonInvalid), errs.ToAggregate().Error())
			break
		}
		rr.Status = before.Status
		return q.Status.QuoteName, true, nil
	}
	return "", false, r.saveStatus(ctx, rr, before)
}

// hasExpired reports whether the hold of a Quote is over, even if its phase does not say so yet.
func (r *Reconciler) hasExpired(q *agentv1alpha1.Quote) bool {
	return q.Status.ExpiresAt != nil && !r.options.Clock.Now().Before(q.Status.ExpiresAt.Time)
}

func describeEndedQuote(q *agentv1alpha1.Quote) string {
	switch {
	case q.Status.Phase == agentv1alpha1.QuoteTaken:
		return fmt.Sprintf("quote %q was taken over by ResourceRequest %q", q.Name, q.Status.TakenBy)
	case q.DeletionTimestamp != nil:
		return fmt.Sprintf("quote %q was deleted", q.Name)
	case q.Status.Phase == agentv1alpha1.QuoteFailed:
		return fmt.Sprintf("quote %q holds nothing: %s", q.Name, q.Status.Message)
	case q.Status.ExpiresAt == nil:
		return fmt.Sprintf("quote %q has expired", q.Name)
	}
	return fmt.Sprintf("quote %q expired at %s", q.Name, q.Status.ExpiresAt.UTC().Format(time.RFC3339))
}

// losesQuote reports whether a refusal means that the broker no longer holds the quote of a request.
func losesQuote(rr *agentv1alpha1.ResourceRequest, no *fault.Error) bool {
	return rr.Status.QuoteName != "" && rr.Status.ReservationName == "" && (no.Reason == fault.Released || no.Reason == fault.NotFound)
}

func (r *Reconciler) requestsQuoting(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requestsWhere(ctx, func(rr *agentv1alpha1.ResourceRequest) bool {
		return rr.Namespace == o.GetNamespace() && rr.Spec.Quote == o.GetName() && !rr.Status.Asked
	})
}
