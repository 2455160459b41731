// Package quote asks the broker to hold capacity for the Quotes of users, and shows the broker's answers in their
// status. It releases the capacity when a Quote is deleted.
package quote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// +kubebuilder:rbac:groups=liqo.io,resources=quotes,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=liqo.io,resources=quotes/status,verbs=patch
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=limitranges;resourcequotas,verbs=list

const (
	// retention is how long a Quote stays after it has ended, so that people can read why.
	retention = 10 * time.Minute
	// longestHold is the longest time for which the broker can hold a quote. A deleted Quote is removed after this time
	// even if the broker never answered, because the broker then no longer holds anything for it.
	longestHold = time.Hour
	// firstRetry and lastRetry are the shortest and the longest pause before the broker is asked again after an error.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 15 * time.Second
	// afterConflict is the pause before the next reconcile if the cached Quote was stale.
	afterConflict = 100 * time.Millisecond
	// confirmEvery is how often the broker is asked whether it still holds a Quote. A hold may end early: when a cluster
	// is denied, drained or cordoned, and when the broker was restored from an older state.
	confirmEvery = 30 * time.Second
	// never means that only an event triggers the next reconcile.
	never time.Duration = 0
)

// Options of the controller. All are required.
type Options struct {
	ClusterID string
	// Reader reads from the API server, because the bounds of a namespace must not be stale.
	Reader client.Reader
	Clock  clock.Clock
}

// Reconciler asks the broker about Quotes and keeps their status up to date.
type Reconciler struct {
	client  client.Client
	broker  transport.Quoter
	options Options
	retries *flowcontrol.Backoff
	// answered holds the time at which the broker was last asked about each Quote that it holds, by the UID of the Quote.
	// Only the controller's single worker uses it, so it needs no lock.
	answered map[types.UID]time.Time
}

// New returns a Reconciler.
func New(c client.Client, broker transport.Quoter, options Options) *Reconciler {
	retries := flowcontrol.NewBackOffWithJitter(firstRetry, lastRetry, 0.5)
	retries.Clock = options.Clock
	return &Reconciler{client: c, broker: broker, options: options, retries: retries, answered: map[types.UID]time.Time{}}
}

// SetupWithManager registers the controller with one worker. Two Quotes are therefore never checked against the bounds
// of a namespace at the same time.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("quote").
		For(&agentv1alpha1.Quote{}).
		Watches(&agentv1alpha1.ResourceRequest{}, handler.EnqueueRequestsFromMapFunc(quoteOf)).
		Complete(r)
}

func quoteOf(_ context.Context, o client.Object) []reconcile.Request {
	rr, ok := o.(*agentv1alpha1.ResourceRequest)
	if !ok || rr.Spec.Quote == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: rr.Namespace, Name: rr.Spec.Quote}}}
}

// Reconcile takes the next step for one Quote.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	q := &agentv1alpha1.Quote{}
	if err := r.client.Get(ctx, req.NamespacedName, q); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	again, err := r.takeStep(ctx, q)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: afterConflict}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

func (r *Reconciler) takeStep(ctx context.Context, q *agentv1alpha1.Quote) (time.Duration, error) {
	switch {
	case q.DeletionTimestamp != nil:
		delete(r.answered, q.UID)
		return r.releaseDeleted(ctx, q)
	case q.IsOver():
		delete(r.answered, q.UID)
		return r.removeEnded(ctx, q)
	}
	if err := r.beginQuote(ctx, q); err != nil || q.IsOver() {
		return never, err
	}
	before := q.DeepCopy()
	again, err := r.advanceQuote(ctx, q)
	if err != nil {
		return never, err
	}
	return again, r.saveStatus(ctx, q, before)
}

// beginQuote adds the finalizer and checks the bounds of the namespace. It then records that the broker is about to be
// asked, so that an agent that is killed during the call knows that something may be held.
func (r *Reconciler) beginQuote(ctx context.Context, q *agentv1alpha1.Quote) error {
	if _, err := patch.AddFinalizer(ctx, r.client, q, agentv1alpha1.ReleaseFinalizer); err != nil {
		return fmt.Errorf("add finalizer to quote %q: %w", q.Name, err)
	}
	if q.Status.Asked {
		return nil
	}
	errs, err := bounds.CheckQuote(ctx, r.options.Reader, q)
	if err != nil {
		return err
	}
	before := q.DeepCopy()
	if len(errs) > 0 {
		r.setEnded(q, agentv1alpha1.QuoteFailed, agentv1alpha1.ReasonOutsideBounds, errs.ToAggregate().Error()+". "+againAdvice)
	} else {
		q.Status.Asked = true
	}
	return r.saveStatus(ctx, q, before)
}

// advanceQuote asks the broker until it has answered. It then ends the Quote when a request has taken it over, when
// the hold is over, or when the broker no longer holds the capacity. It changes the status in memory only, and
// returns the time until the next reconcile.
func (r *Reconciler) advanceQuote(ctx context.Context, q *agentv1alpha1.Quote) (time.Duration, error) {
	if q.Status.Phase != agentv1alpha1.QuoteHeld {
		return r.askBroker(ctx, q), nil
	}
	taker, err := r.findTaker(ctx, q)
	if err != nil {
		return never, err
	}
	left := q.Status.ExpiresAt.Sub(r.options.Clock.Now())
	switch {
	case taker != "":
		q.Status.TakenBy = taker
		r.setEnded(q, agentv1alpha1.QuoteTaken, agentv1alpha1.ReasonQuoteTaken, fmt.Sprintf("ResourceRequest %q has taken the capacity over", taker))
	case left <= 0:
		r.setEnded(q, agentv1alpha1.QuoteExpired, agentv1alpha1.ReasonExpired,
			fmt.Sprintf("the capacity was held until %s. %s", q.Status.ExpiresAt.UTC().Format(time.RFC3339), againAdvice))
	default:
		return r.confirmHold(ctx, q, left)
	}
	return retention, nil
}

func (r *Reconciler) findTaker(ctx context.Context, q *agentv1alpha1.Quote) (string, error) {
	takers, err := listTakers(ctx, r.client, q)
	for i := range takers {
		if takers[i].Status.ReservationName != "" {
			return takers[i].Name, nil
		}
	}
	return "", err
}

// listTakers returns the ResourceRequests that have recorded the name of the quote, because they take it over.
func listTakers(ctx context.Context, from client.Reader, q *agentv1alpha1.Quote) ([]agentv1alpha1.ResourceRequest, error) {
	var list agentv1alpha1.ResourceRequestList
	if err := from.List(ctx, &list, client.InNamespace(q.Namespace)); err != nil {
		return nil, fmt.Errorf("list resource requests of namespace %q: %w", q.Namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(rr agentv1alpha1.ResourceRequest) bool { return rr.Status.QuoteName != q.Status.QuoteName }), nil
}

// confirmHold asks the broker every confirmEvery whether it still holds the Quote, and ends the Quote if it does not.
// If the broker cannot answer, nothing changes. left is the time until the hold is over. confirmHold returns the time
// until the next reconcile.
func (r *Reconciler) confirmHold(ctx context.Context, q *agentv1alpha1.Quote, left time.Duration) (time.Duration, error) {
	now := r.options.Clock.Now()
	if due := r.answered[q.UID].Add(confirmEvery); now.Before(due) {
		return min(left, due.Sub(now)), nil
	}
	r.answered[q.UID] = now
	no, err := r.findWhyEnded(ctx, q)
	if no == nil || err != nil {
		return min(left, confirmEvery), err
	}
	ended := metav1.NewTime(now.Truncate(time.Second))
	q.Status.ExpiresAt = &ended
	return r.handleError(q, no), nil
}

// findWhyEnded asks the broker about a held Quote. It returns the reason why the broker no longer holds the Quote, or nil
// if the broker still holds it or cannot answer.
func (r *Reconciler) findWhyEnded(ctx context.Context, q *agentv1alpha1.Quote) (*fault.Error, error) {
	answer, err := r.requestQuote(ctx, q)
	no, considered := errors.AsType[*fault.Error](err)
	switch {
	case err == nil && answer.Name == q.Status.QuoteName, err != nil && (!considered || no.Temporary()):
		return nil, nil
	case err == nil:
		// The broker has made a new decision, perhaps with another price, which is not what was quoted. If this call is
		// lost, the hold of the new decision ends at its expiry.
		_ = r.broker.ReleaseQuote(ctx, string(q.UID))
		return fault.New(fault.Released, "the broker no longer knows quote %s", q.Status.QuoteName), nil
	case no.Reason != fault.Released:
		return no, nil
	}
	// A request records the quote's name before it asks the broker to take the quote over. The requests on the API server
	// therefore show whether the quote was taken over or is no longer held.
	takers, err := listTakers(ctx, r.options.Reader, q)
	if len(takers) > 0 || err != nil {
		return nil, err
	}
	return no, nil
}

// askBroker asks the broker to hold the capacity, and returns the time until the next reconcile.
func (r *Reconciler) askBroker(ctx context.Context, q *agentv1alpha1.Quote) time.Duration {
	if now := r.options.Clock.Now(); r.retries.IsInBackOffSinceUpdate(string(q.UID), now) {
		return r.retries.Get(string(q.UID))
	}
	answer, err := r.requestQuote(ctx, q)
	if err != nil {
		return r.handleError(q, err)
	}
	r.retries.Reset(string(q.UID))
	r.answered[q.UID] = r.options.Clock.Now()
	return r.showAnswer(q, answer)
}

// requestQuote calls the broker. Repeated calls have the same idempotency key, so the broker holds the capacity only
// once and answers with the same hold.
func (r *Reconciler) requestQuote(ctx context.Context, q *agentv1alpha1.Quote) (*v1.Quote, error) {
	body := wire.ReservationRequest(q.Request(), r.options.ClusterID)
	hold := ptr.Deref(q.Spec.Hold, metav1.Duration{Duration: agentv1alpha1.DefaultQuoteHold})
	body.HoldSeconds = int64(hold.Round(time.Second) / time.Second)
	return r.broker.RequestQuote(ctx, string(q.UID), body)
}

// handleError describes a failed call in the status. A temporary error is retried; any other ends the Quote. It
// returns the time until the next reconcile.
func (r *Reconciler) handleError(q *agentv1alpha1.Quote, err error) time.Duration {
	no, considered := errors.AsType[*fault.Error](err)
	switch {
	case !considered || no.Temporary():
		reason, cause := agentv1alpha1.ReasonBrokerUnreachable, "the broker does not answer"
		if considered && no.Reason == fault.TooManyRequests {
			reason, cause = agentv1alpha1.ReasonOverBudget, "this cluster exceeds its budget at the broker"
		}
		r.setReady(q, metav1.ConditionFalse, reason, cause+"; the quote is asked for until it is answered: "+err.Error())
		return r.pauseAfter(q, no)
	case no.Reason == fault.Released:
		r.setEnded(q, agentv1alpha1.QuoteExpired, agentv1alpha1.ReasonExpired, no.Detail+". "+againAdvice)
	case no.Reason == fault.Invalid:
		r.setEnded(q, agentv1alpha1.QuoteFailed, agentv1alpha1.ReasonInvalid, no.Detail+". "+againAdvice)
	default:
		r.setEnded(q, agentv1alpha1.QuoteFailed, agentv1alpha1.ReasonRefused, no.Detail+". "+againAdvice)
	}
	r.retries.Reset(string(q.UID))
	return retention
}

func (r *Reconciler) pauseAfter(q *agentv1alpha1.Quote, no *fault.Error) time.Duration {
	r.retries.Next(string(q.UID), r.options.Clock.Now())
	wait := r.retries.Get(string(q.UID))
	if no != nil {
		wait = max(wait, min(no.RetryAfter, lastRetry))
	}
	return wait
}

// releaseDeleted releases what the broker may hold for a deleted Quote, and removes the finalizer. It repeats a
// failed call until lastHold, and then removes the finalizer without an answer.
func (r *Reconciler) releaseDeleted(ctx context.Context, q *agentv1alpha1.Quote) (time.Duration, error) {
	if !controllerutil.ContainsFinalizer(q, agentv1alpha1.ReleaseFinalizer) {
		return never, nil
	}
	now := r.options.Clock.Now()
	if q.Status.Asked && !q.IsOver() && now.Before(lastHold(q)) {
		if r.retries.IsInBackOffSinceUpdate(string(q.UID), now) {
			return r.retries.Get(string(q.UID)), nil
		}
		err := r.broker.ReleaseQuote(ctx, string(q.UID))
		no, considered := errors.AsType[*fault.Error](err)
		if err != nil && (!considered || no.Temporary()) {
			return r.pauseAfter(q, no), nil
		}
	}
	r.retries.DeleteEntry(string(q.UID))
	if err := patch.RemoveFinalizer(ctx, r.client, q, agentv1alpha1.ReleaseFinalizer); err != nil {
		return never, fmt.Errorf("remove finalizer of quote %q: %w", q.Name, err)
	}
	return never, nil
}

func lastHold(q *agentv1alpha1.Quote) time.Time {
	if q.Status.ExpiresAt != nil {
		return q.Status.ExpiresAt.Time
	}
	return q.DeletionTimestamp.Add(longestHold)
}

func (r *Reconciler) removeEnded(ctx context.Context, q *agentv1alpha1.Quote) (time.Duration, error) {
	if left := endOf(q).Add(retention).Sub(r.options.Clock.Now()); left > 0 {
		return left, nil
	}
	uid := q.UID
	err := r.client.Delete(ctx, q, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return never, fmt.Errorf("delete quote %q, which has ended: %w", q.Name, err)
	}
	return never, nil
}

func (r *Reconciler) saveStatus(ctx context.Context, q, before *agentv1alpha1.Quote) error {
	q.Status.ObservedGeneration = q.Generation
	_, err := patch.Status(ctx, r.client, q, before)
	return err
}
