package resourcerequest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// recordTransitions records the events for a transition: one for Ready if the phase or Ready's reason
// changed, and one for each other condition that reports a problem.
func (r *Reconciler) recordTransitions(rr, before *agentv1alpha1.ResourceRequest) {
	ready := changedCondition(rr, before, agentv1alpha1.ConditionReady)
	if ready == nil && rr.Status.Phase != before.Status.Phase {
		ready = meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReady)
	}
	if ready != nil {
		r.recordCondition(rr, ready)
	}
	if c := changedCondition(rr, before, agentv1alpha1.ConditionReserved); c != nil && (ready == nil || c.Reason != ready.Reason) {
		r.recordCondition(rr, c)
	}
	for _, kind := range []string{
		agentv1alpha1.ConditionChanged, agentv1alpha1.ConditionPreempted, agentv1alpha1.ConditionRecalled, agentv1alpha1.ConditionWithinGrant, agentv1alpha1.ConditionProviderReachable, agentv1alpha1.ConditionDrained,
	} {
		if c := changedCondition(rr, before, kind); c != nil {
			r.recordCondition(rr, c)
		}
	}
	for _, c := range []*metav1.Condition{changedEnding(rr, before), changedHealth(rr, before)} {
		if c != nil && (ready == nil || c.Reason != ready.Reason) {
			r.recordCondition(rr, c)
		}
	}
	if c := changedCondition(rr, before, agentv1alpha1.ConditionOffloading); c != nil && c.Reason == agentv1alpha1.ReasonNamespaceNotOpted {
		r.recordCondition(rr, c)
	}
}

// changedEnding returns the condition Ending if it changed, unless Preempted reports the same.
func changedEnding(rr, before *agentv1alpha1.ResourceRequest) *metav1.Condition {
	if changedCondition(rr, before, agentv1alpha1.ConditionPreempted) != nil {
		return nil
	}
	return changedCondition(rr, before, agentv1alpha1.ConditionEnding)
}

// changedHealth returns the condition Healthy if a problem appeared or ended. It returns nil when a
// request is healthy from the start.
func changedHealth(rr, before *agentv1alpha1.ResourceRequest) *metav1.Condition {
	c := changedCondition(rr, before, agentv1alpha1.ConditionHealthy)
	if c == nil || c.Status != metav1.ConditionFalse && !meta.IsStatusConditionFalse(before.Status.Conditions, c.Type) {
		return nil
	}
	return c
}

func (r *Reconciler) recordReleased(rr *agentv1alpha1.ResourceRequest) {
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
		agentv1alpha1.ReasonRecallNotice, agentv1alpha1.ReasonRecalled, agentv1alpha1.ReasonExceedsGrant,
		agentv1alpha1.ReasonProviderSilent, agentv1alpha1.ReasonMigrating, agentv1alpha1.ReasonExpiring,
		agentv1alpha1.ReasonDrainBlocked, agentv1alpha1.ReasonDrainOverdue, agentv1alpha1.ReasonDrainedPartly,
		agentv1alpha1.ReasonProviderUnreachable, agentv1alpha1.ReasonHandshakeRefused, agentv1alpha1.ReasonSliceDenied, agentv1alpha1.ReasonPodsRejected:
		kind = corev1.EventTypeWarning
	}
	r.recorder.Eventf(rr, nil, kind, c.Reason, "Reserve", "%s", message.Clip(c.Message, message.MaxNote))
}
