package resourcerequest

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

func (r *Reconciler) recordTransitions(ctx context.Context, rr, before *agentv1alpha1.ResourceRequest) {
	for _, c := range changedFacts(rr, before) {
		r.recordCondition(rr, c)
		logProgress(ctx, rr, "request changed state", c.Reason, c.Message)
	}
}

// changedFacts returns the conditions whose change is worth an event. It returns only one for each
// reason. A condition that names a cause comes before the conditions that result from that cause.
func changedFacts(rr, before *agentv1alpha1.ResourceRequest) []*metav1.Condition {
	var facts []*metav1.Condition
	add := func(c *metav1.Condition) {
		if c != nil && !slices.ContainsFunc(facts, func(f *metav1.Condition) bool { return f.Reason == c.Reason }) {
			facts = append(facts, c)
		}
	}
	add(changedReserved(rr, before))
	for _, kind := range []string{
		agentv1alpha1.ConditionChanged, agentv1alpha1.ConditionPreempted, agentv1alpha1.ConditionRecalled,
		agentv1alpha1.ConditionWithinGrant, agentv1alpha1.ConditionIdle, agentv1alpha1.ConditionProviderReachable,
	} {
		add(changedCondition(rr, before, kind))
	}
	add(changedEnding(rr, before))
	explained := len(facts) > 0
	add(changedCondition(rr, before, agentv1alpha1.ConditionDrained))
	add(changedHealth(rr, before))
	if c := changedCondition(rr, before, agentv1alpha1.ConditionOffloading); c != nil && c.Reason == agentv1alpha1.ReasonNamespaceNotOpted {
		add(c)
	}
	if ready := changedReady(rr, before); !explained || ready == nil || !isConsequence(ready.Reason) {
		add(ready)
	}
	return facts
}

func changedReady(rr, before *agentv1alpha1.ResourceRequest) *metav1.Condition {
	if rr.Status.Phase != before.Status.Phase {
		return meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReady)
	}
	return changedCondition(rr, before, agentv1alpha1.ConditionReady)
}

// isConsequence reports whether a change of Ready with this reason needs no event if another
// condition, which names the cause, has also changed.
func isConsequence(reason string) bool {
	return reason == agentv1alpha1.ReasonPeering || reason == agentv1alpha1.ReasonReleasing
}

// changedReserved returns the condition Reserved if it changed. It returns nil if Ready changed for
// the same reason. It also returns nil while a request is being released: Ending then names the
// cause, and another event follows when everything is released.
func changedReserved(rr, before *agentv1alpha1.ResourceRequest) *metav1.Condition {
	c := changedCondition(rr, before, agentv1alpha1.ConditionReserved)
	if ready := changedReady(rr, before); c == nil || ready != nil && ready.Reason == c.Reason ||
		c.Reason == agentv1alpha1.ReasonReleased && rr.Status.Phase == agentv1alpha1.RequestReleasing {
		return nil
	}
	return c
}

// changedEnding returns nil if another condition already explains the end: the placement makes room, is recalled,
// or its provider is silent.
func changedEnding(rr, before *agentv1alpha1.ResourceRequest) *metav1.Condition {
	all := rr.Status.Conditions
	if meta.IsStatusConditionTrue(all, agentv1alpha1.ConditionPreempted) || meta.IsStatusConditionTrue(all, agentv1alpha1.ConditionRecalled) ||
		meta.IsStatusConditionFalse(all, agentv1alpha1.ConditionProviderReachable) ||
		changedCondition(rr, before, agentv1alpha1.ConditionPreempted) != nil {
		return nil
	}
	return changedCondition(rr, before, agentv1alpha1.ConditionEnding)
}

// logProgress logs a step in the life of a request. The log lines of all steps have the same keys.
func logProgress(ctx context.Context, rr *agentv1alpha1.ResourceRequest, step, reason, detail string) {
	s := &rr.Status
	log.FromContext(ctx).Info(step, "request", rr.Namespace+"/"+rr.Name, "reservation", s.ReservationName, "provider", s.TargetClusterID,
		"node", s.NodeName, "phase", s.Phase, "reason", reason, "detail", message.Clip(detail, message.MaxNote))
}

// changedHealth returns the condition Healthy if a problem appeared or ended; nil if it is new and healthy.
func changedHealth(rr, before *agentv1alpha1.ResourceRequest) *metav1.Condition {
	c := changedCondition(rr, before, agentv1alpha1.ConditionHealthy)
	if c == nil || c.Status != metav1.ConditionFalse && !meta.IsStatusConditionFalse(before.Status.Conditions, c.Type) {
		return nil
	}
	return c
}

func (r *Reconciler) recordReleased(ctx context.Context, rr *agentv1alpha1.ResourceRequest) {
	logProgress(ctx, rr, "request released", agentv1alpha1.ReasonReleased, "all capacity was released")
	r.recorder.Eventf(rr, nil, corev1.EventTypeNormal, agentv1alpha1.ReasonReleased, "Release", "all capacity was released")
}

func changedCondition(rr, before *agentv1alpha1.ResourceRequest, kind string) *metav1.Condition {
	return message.ChangedCondition(rr.Status.Conditions, before.Status.Conditions, kind)
}

func (r *Reconciler) recordCondition(rr *agentv1alpha1.ResourceRequest, c *metav1.Condition) {
	kind := corev1.EventTypeNormal
	switch c.Reason {
	case agentv1alpha1.ReasonNoCandidate, agentv1alpha1.ReasonRefused, agentv1alpha1.ReasonInvalid,
		agentv1alpha1.ReasonBrokerUnreachable, agentv1alpha1.ReasonNamespaceNotOpted, agentv1alpha1.ReasonNodeNotReady,
		agentv1alpha1.ReasonOutsideBounds, agentv1alpha1.ReasonChangeRefused, agentv1alpha1.ReasonFailed,
		agentv1alpha1.ReasonQueueFull, agentv1alpha1.ReasonOverBudget, agentv1alpha1.ReasonNotice, agentv1alpha1.ReasonPreempted,
		agentv1alpha1.ReasonRecallNotice, agentv1alpha1.ReasonRecalled, agentv1alpha1.ReasonExceedsGrant, agentv1alpha1.ReasonIdle,
		agentv1alpha1.ReasonProviderSilent, agentv1alpha1.ReasonMigrating, agentv1alpha1.ReasonExpiring,
		agentv1alpha1.ReasonDrainBlocked, agentv1alpha1.ReasonDrainOverdue, agentv1alpha1.ReasonDrainedPartly,
		agentv1alpha1.ReasonProviderUnreachable, agentv1alpha1.ReasonHandshakeRefused, agentv1alpha1.ReasonSliceDenied, agentv1alpha1.ReasonPodsRejected,
		agentv1alpha1.ReasonServiceRejected:
		kind = corev1.EventTypeWarning
	}
	r.recorder.Eventf(rr, nil, kind, c.Reason, "Reserve", "%s", message.Clip(c.Message, message.MaxNote))
}
