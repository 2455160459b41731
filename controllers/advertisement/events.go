package advertisement

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// tell records an event for a change of the condition.
func (r *Reconciler) tell(adv *agentv1alpha1.Advertisement, c metav1.Condition) {
	kind := corev1.EventTypeNormal
	switch {
	case c.Status != metav1.ConditionTrue, c.Reason == agentv1alpha1.ReasonRenewalFailing, c.Reason == agentv1alpha1.ReasonCertificateExpiring:
		kind = corev1.EventTypeWarning
	}
	r.recorder.Eventf(adv, nil, kind, c.Reason, "Publish", "%s", c.Message)
}
