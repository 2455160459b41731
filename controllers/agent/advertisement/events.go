package advertisement

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// isQuiet reports whether a condition only says that all is well. Such a condition causes no
// event when it first appears.
func isQuiet(c metav1.Condition) bool {
	switch c.Reason {
	case agentv1alpha1.ReasonCovered, agentv1alpha1.ReasonConfigured, agentv1alpha1.ReasonLiqoReady, agentv1alpha1.ReasonLiqoHidden,
		agentv1alpha1.ReasonBrokerCompatible, agentv1alpha1.ReasonPriced, agentv1alpha1.ReasonComplete, agentv1alpha1.ReasonGuarded:
		return true
	}
	return false
}

// isUnsteady reports whether the message of a condition may differ at every reconciliation although
// nothing has changed. A new message alone then causes no write. This applies to messages about
// failures, except those about Liqo, the configuration, completeness, admission, and missing or
// invalid prices of nodes.
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
