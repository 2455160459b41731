package advertisement

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
)

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

// leavingCondition returns the condition Leaving after an offer was sent, or nil if the offer does
// not say that the agent is being uninstalled. ready is the condition Ready, which says whether the
// broker accepted the offer.
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
