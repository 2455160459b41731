package advertisement

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
)

// isQuiet reports whether a condition only says that all is well: it causes no event when it first appears.
func isQuiet(c metav1.Condition) bool {
	switch c.Reason {
	case agentv1alpha1.ReasonCovered, agentv1alpha1.ReasonConfigured, agentv1alpha1.ReasonLiqoReady, agentv1alpha1.ReasonLiqoHidden,
		agentv1alpha1.ReasonBrokerCompatible, agentv1alpha1.ReasonPriced, agentv1alpha1.ReasonComplete, agentv1alpha1.ReasonGuarded:
		return true
	}
	return false
}

// isUnsteady reports whether the message of a condition may differ at every reconciliation although nothing has
// changed, as those about most failures do. A new message alone then causes no write.
func isUnsteady(c metav1.Condition) bool {
	switch c.Reason {
	case agentv1alpha1.ReasonPriceInvalid, agentv1alpha1.ReasonPriceMissing:
		return false
	}
	switch c.Type {
	case agentv1alpha1.ConditionLiqoReady, agentv1alpha1.ConditionConfigured, agentv1alpha1.ConditionComplete, agentv1alpha1.ConditionGuarded:
		return false
	}
	return c.Status != metav1.ConditionTrue
}

func (r *Reconciler) recordTransition(adv *agentv1alpha1.Advertisement, c metav1.Condition) {
	kind := corev1.EventTypeNormal
	switch c.Reason {
	case agentv1alpha1.ReasonRenewalFailing, agentv1alpha1.ReasonCertificateExpiring, agentv1alpha1.ReasonLiqoVersionUntested:
		kind = corev1.EventTypeWarning
	}
	if c.Status == metav1.ConditionFalse {
		kind = corev1.EventTypeWarning
	}
	r.recorder.Eventf(adv, nil, kind, c.Reason, "Publish", "%s", message.Clip(c.Message, message.MaxNote))
}

// writeConditions writes the conditions and records events. It writes nothing if neither the
// conditions nor the anchors changed (isUnsteady says which new messages do not count), so that a
// regular advertisement does not cause a write to the API server. The first condition must be
// Ready, which says whether the broker has the advertisement.
func (r *Reconciler) writeConditions(ctx context.Context, adv *agentv1alpha1.Advertisement, conditions []metav1.Condition) error {
	before := adv.DeepCopy()
	now := metav1.Time{Time: r.options.Clock.Now()}
	var changed []metav1.Condition
	same := !removeConditions(adv, conditions) && adv.Status.ObservedGeneration == adv.Generation
	for _, c := range conditions {
		c.Message = message.Clip(c.Message, message.MaxStatus)
		c.ObservedGeneration, c.LastTransitionTime = adv.Generation, now
		meta.SetStatusCondition(&adv.Status.Conditions, c)
		old := meta.FindStatusCondition(before.Status.Conditions, c.Type)
		if message.ChangedCondition(adv.Status.Conditions, before.Status.Conditions, c.Type) != nil && (old != nil || !isQuiet(c)) {
			changed = append(changed, c)
		}
		same = same && old != nil && (c.Message == old.Message || isUnsteady(c))
	}
	adv.Status.Anchors = keepAnchor(adv.Status.Anchors, r.anchor, now.Time)
	if len(changed) == 0 && same && equality.Semantic.DeepEqual(adv.Status.Anchors, before.Status.Anchors) {
		return nil
	}
	adv.Status.Published = conditions[0].Status == metav1.ConditionTrue
	adv.Status.Message = message.Clip(conditions[0].Message, message.MaxStatus)
	adv.Status.ObservedGeneration = adv.Generation
	if adv.Status.Published {
		adv.Status.LastPublished = &now
	}
	if err := r.client.Status().Patch(ctx, adv, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write status of advertisement %q: %w", adv.Name, err)
	}
	for _, c := range changed {
		log.FromContext(ctx).Info("condition changed", "type", c.Type, "status", c.Status, "reason", c.Reason, "message", c.Message)
		r.recordTransition(adv, c)
	}
	return nil
}

// removeConditions removes optional conditions that are not in the given list, and reports whether it removed one.
func removeConditions(adv *agentv1alpha1.Advertisement, conditions []metav1.Condition) (forgotten bool) {
	for _, optional := range []string{agentv1alpha1.ConditionLiqoReady, agentv1alpha1.ConditionPeeringSkipped, agentv1alpha1.ConditionConfigured, agentv1alpha1.ConditionPriced, agentv1alpha1.ConditionGuarded, agentv1alpha1.ConditionLeaving} {
		if meta.FindStatusCondition(conditions, optional) == nil && meta.RemoveStatusCondition(&adv.Status.Conditions, optional) {
			forgotten = true
		}
	}
	return forgotten
}

// WhyUnready returns the reason for which this cluster, whose Advertisement is adv, takes no new
// placements, and "" if it takes them. While the agent is being uninstalled, that is
// lending.Uninstalling. liqo is the condition about Liqo, or nil if there is none: a condition
// PeeringSkipped gives lending.NotPeering, and LiqoReady gives its reason while the cluster cannot peer.
func WhyUnready(adv *agentv1alpha1.Advertisement, liqo *metav1.Condition, now time.Time) string {
	if now.Before(leavingUntil(adv)) {
		return lending.Uninstalling
	}
	if liqo != nil && liqo.Type == agentv1alpha1.ConditionPeeringSkipped {
		return lending.NotPeering
	}
	return installation.WhyUnready(liqo)
}

func leavingUntil(adv *agentv1alpha1.Advertisement) time.Time {
	until, err := time.Parse(time.RFC3339, adv.Annotations[agentv1alpha1.LeavingUntilAnnotation])
	if err != nil {
		return time.Time{}
	}
	return until
}

// leavingCondition returns nil if the offer does not say that the agent is being uninstalled. ready says whether
// the broker accepted the offer.
func leavingCondition(sent *offer, ready metav1.Condition) *metav1.Condition {
	if !sent.Lending.IsLeaving() {
		return nil
	}
	if ready.Status != metav1.ConditionTrue {
		return &metav1.Condition{Type: agentv1alpha1.ConditionLeaving, Status: metav1.ConditionFalse, Reason: ready.Reason, Message: ready.Message}
	}
	return &metav1.Condition{
		Type: agentv1alpha1.ConditionLeaving, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonUninstalling,
		Message: "the agent is being uninstalled: the broker places nothing new here",
	}
}

const (
	// askEvery is how long the broker's version is cached. An operator who upgrades the agent
	// or the broker sees within this time whether the versions are compatible.
	askEvery   = 2 * time.Minute
	askTimeout = 5 * time.Second
)

// compatibleCondition returns nil until the broker has reported a version.
func (r *Reconciler) compatibleCondition(ctx context.Context) *metav1.Condition {
	now := r.options.Clock.Now()
	if now.Before(r.ask) {
		return r.fits
	}
	r.ask = now.Add(askEvery)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	pong, err := r.publisher.Ping(ctx)
	if err != nil {
		return r.fits // the condition Ready reports an unreachable broker
	}
	r.fits = skewCondition(version.Skew{Agent: v1.Minor, Broker: int(pong.ApiMinor)})
	return r.fits
}

func skewCondition(skew version.Skew) *metav1.Condition {
	c := &metav1.Condition{
		Type: agentv1alpha1.ConditionBrokerCompatible, Status: metav1.ConditionTrue,
		Reason: agentv1alpha1.ReasonBrokerCompatible, Message: skew.String(),
	}
	if skew.Fits() {
		return c
	}
	c.Status, c.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonBrokerTooNew
	if skew.Agent > skew.Broker {
		c.Reason = agentv1alpha1.ReasonBrokerTooOld
	}
	c.Message += ": they may misunderstand each other, " + skew.Advice()
	return c
}
