package advertisement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	// publishTimeout limits one attempt to publish. It is short, because failed attempts are repeated
	// anyway.
	publishTimeout = 10 * time.Second
	// firstRetry is the pause after the first failure to reach the broker. The pause doubles
	// with each failure, up to the interval.
	firstRetry = 2 * time.Second
)

// Reconcile computes the offer from the accounts. After a material change it writes the
// Advertisement object and publishes the offer to the broker. It also publishes the offer at
// regular intervals.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (ctrl.Result, error) {
	select {
	case <-r.accounts.Synced():
	default:
		// followAccounts enqueues a request once the first count is complete.
		return ctrl.Result{}, nil
	}
	if wait := r.looked.Add(minGap).Sub(r.options.Clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	r.looked = r.options.Clock.Now()

	liqo := r.options.Liqo(ctx)
	adv, now, err := r.observeOffer(ctx, liqo)
	if err != nil {
		return ctrl.Result{}, err
	}
	due := r.isDue(now)
	if err := r.writeOffer(ctx, adv, now, due); err != nil {
		return conflictLater(err)
	}
	if !due {
		return ctrl.Result{RequeueAfter: r.untilDue()}, nil
	}
	missing := now.missingAmounts()
	now.setMetric(r.missing, missing)
	now.setMetric(r.pending, now.pending)
	ready := r.publishOffer(ctx, now)
	conditions := append([]metav1.Condition{ready, coveredCondition(missing)}, r.options.Settings.Conditions()...)
	for _, c := range []*metav1.Condition{
		leavingCondition(now, ready), r.complete, r.compatibleCondition(ctx), r.options.Certificate(ctx), r.options.Guarded(ctx), liqo,
	} {
		if c != nil {
			conditions = append(conditions, *c)
		}
	}
	if err := r.writeConditions(ctx, adv, conditions); err != nil {
		return conflictLater(err)
	}
	return ctrl.Result{RequeueAfter: r.untilDue()}, nil
}

// observeOffer reads the Advertisement object, which may not exist yet, and computes the offer. According to liqo,
// this cluster may take no new placements, because it cannot peer.
func (r *Reconciler) observeOffer(ctx context.Context, liqo *metav1.Condition) (*agentv1alpha1.Advertisement, *offer, error) {
	adv := &agentv1alpha1.Advertisement{}
	if err := r.client.Get(ctx, r.ownRequest().NamespacedName, adv); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("read advertisement %q: %w", r.options.Name, err)
	}
	holds, err := r.listHolds(ctx)
	if err != nil {
		return nil, nil, err
	}
	policy, err := configuration.ReadLendingPolicy(ctx, r.client)
	if err != nil {
		return nil, nil, err
	}
	offered := r.options.Settings.Offered()
	id := identity{
		ClusterID: r.options.ClusterID, ClusterName: r.options.ClusterName,
		EndpointURL: r.options.EndpointURL, Topology: offered.Topology,
		Labels: offered.Labels, Claims: offered.Claims, Lending: wire.LendingPolicy(policy),
	}
	id.Lending.Unready = WhyUnready(adv, liqo, r.options.Clock.Now())
	if id.Labels == nil {
		id.Labels = maps.Clone(adv.Spec.Labels)
	}
	if id.Claims == nil {
		id.Claims = maps.Clone(adv.Spec.Claims)
	}
	cost := cmp.Or(offered.Cost, adv.Spec.Cost)
	snapshot := r.accounts.Snapshot()
	now := newOffer(id, &offered.Rules, cost.DeepCopy(), &snapshot, holds)
	return adv, &now, nil
}

func (r *Reconciler) listHolds(ctx context.Context) ([]hold, error) {
	var list agentv1alpha1.ProviderInstructionList
	if err := r.client.List(ctx, &list, client.InNamespace(r.options.InstructionNamespace)); err != nil {
		return nil, fmt.Errorf("list provider instructions: %w", err)
	}
	var out []hold
	for i := range list.Items {
		p := &list.Items[i]
		if !p.IsCounted() {
			continue
		}
		amounts, err := quantity.FromResourceList(p.Kept())
		if err != nil {
			return nil, fmt.Errorf("provider instruction %q: %w", p.Name, err)
		}
		out = append(out, hold{reservation: p.Spec.ReservationName, placement: p.Spec.Placement, amounts: amounts, recalled: p.Status.Recalled, awaitsNodes: p.AwaitsNewNodes()})
	}
	return out, nil
}

// writeOffer creates or updates the Advertisement object. It writes only if the object is missing,
// if the offer or the pending amounts changed materially, or if another client changed the object.
// Prices, labels and claims that the agent's settings do not contain stay as the operator wrote
// them into the object.
func (r *Reconciler) writeOffer(ctx context.Context, adv *agentv1alpha1.Advertisement, now *offer, due bool) error {
	missing := adv.ResourceVersion == ""
	foreign := adv.Generation > r.generation
	if !missing && !foreign && !now.differsMaterially(r.written) && !now.demandMoved(r.written, due) {
		return nil
	}
	adv.Spec = now.advertisementSpec()
	adv.Spec.Timestamp = &metav1.Time{Time: r.options.Clock.Now()}
	if missing {
		adv.Name, adv.Namespace = r.options.Name, r.options.Namespace
		if err := r.client.Create(ctx, adv); err != nil {
			return fmt.Errorf("create advertisement %q: %w", adv.Name, err)
		}
	} else if err := r.client.Update(ctx, adv); err != nil {
		return fmt.Errorf("write advertisement %q: %w", adv.Name, err)
	}
	r.written, r.generation = now, adv.Generation
	return nil
}

// isDue reports whether to publish to the broker now. After a failed attempt, changes are not
// published before the next retry.
func (r *Reconciler) isDue(now *offer) bool {
	if !r.options.Clock.Now().Before(r.due) {
		return true
	}
	return r.failures == 0 && (r.urgent.Load() || now.differsMaterially(r.published))
}

func (r *Reconciler) untilDue() time.Duration {
	return max(r.due.Sub(r.options.Clock.Now()), time.Millisecond)
}

func (r *Reconciler) publishOffer(ctx context.Context, now *offer) metav1.Condition {
	spec := now.advertisementSpec()
	spec.Timestamp = &metav1.Time{Time: r.options.Clock.Now()}
	msg := wire.FromAdvertisement(&spec)
	msg.Usage, msg.Lending = now.wireUsage(r.options.Clock.Now()), wire.FromLending(now.Lending)
	msg.Pending = now.wirePending(r.options.Clock.Now())
	r.bound.shortenMessage(msg, now.exceedsHold(), r.options.Clock.Now())
	r.urgent.Store(false)
	if r.options.Peers != nil {
		msg.Links = r.options.Peers.Unreported()
	}
	msg.Vacant = r.listVacancies(ctx)

	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	receipt, err := r.sendAdvertisement(ctx, msg)
	if err != nil {
		if isOvertaken(err) {
			r.epoch = 0
		}
		r.failures++
		r.due = r.options.Clock.Now().Add(r.jitter(pauseAfter(err, r.failures, r.options.Interval)))
		return refusalCondition(err)
	}
	r.failures, r.epoch = 0, receipt.Epoch
	r.published, r.complete, r.anchor = now, completeCondition(&r.bound), receipt.Anchor
	r.options.NoteJournal(receipt.Anchor.Journal)
	if r.options.Peers != nil {
		r.options.Peers.MarkReported(msg.Links)
		r.options.Peers.ProbePeers(receipt.Peers)
	}
	r.vacancies.wanted = receipt.ReportVacant
	r.due = r.options.Clock.Now().Add(r.jitter(r.nextInterval(receipt)))
	return metav1.Condition{
		Type: agentv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonPublished,
		Message: "the broker has this cluster's offer",
	}
}

// nextInterval returns the operator's interval, or the one that the broker asks for if that is shorter.
func (r *Reconciler) nextInterval(receipt *v1.AdvertisementReceipt) time.Duration {
	if receipt.NextSeconds <= 0 {
		return r.options.Interval
	}
	return min(r.options.Interval, time.Duration(receipt.NextSeconds)*time.Second)
}

// pauseAfter returns how long to wait after consecutive failures: the whole interval if the broker refused the
// advertisement, because it would also refuse a quick retry, unless isOvertaken. It is never shorter than the
// broker demands.
func pauseAfter(err error, failures int, interval time.Duration) time.Duration {
	wait := interval
	if isUnreached(err) || isOvertaken(err) {
		wait = min(interval, firstRetry<<min(failures-1, 16))
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		wait = max(wait, f.RetryAfter)
	}
	return wait
}

func refusalCondition(err error) metav1.Condition {
	c := metav1.Condition{
		Type: agentv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonRefused, Message: err.Error(),
	}
	if isUnreached(err) {
		c.Reason = agentv1alpha1.ReasonBrokerUnreachable
		c.Message = "the offer cannot be published; running workloads are not affected: " + err.Error()
	}
	if isOvertaken(err) {
		c.Message = "asking the broker for a new epoch; if this repeats, two agents run for this cluster: stop one of them. " + err.Error()
	}
	return c
}

// isOvertaken reports whether the broker refused the advertisement because another agent of this
// cluster, for example the previous leader, has sent a newer one.
func isOvertaken(err error) bool { return fault.ReasonOf(err) == fault.Conflict }

// isUnreached reports whether the broker was not reached, or could not decide about the advertisement.
func isUnreached(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	return !ok && errors.Is(err, transport.ErrUnreachable) || ok && f.Temporary()
}

// conflictLater turns the error of a write to a stale object, which is expected, into a retry.
func conflictLater(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: minGap}, nil
	}
	return ctrl.Result{}, err
}
