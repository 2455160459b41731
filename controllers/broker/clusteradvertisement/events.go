package clusteradvertisement

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// recordAwaitingHoldings records an event when the broker begins to wait for the holdings of a cluster (see
// ReasonAwaitingHoldings), and another when it has received them.
func (r *Reconciler) recordAwaitingHoldings(before, after *brokerv1alpha1.ClusterAdvertisement) {
	was, is := awaitingMessage(before), awaitingMessage(after)
	switch {
	case is != "" && was == "":
		r.recorder.Eventf(after, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonAwaitingHoldings, "Recover", "%s", message.Clip(is, message.MaxNote))
	case is == "" && was != "":
		r.recorder.Eventf(after, nil, corev1.EventTypeNormal, "HoldingsAnnounced", "Recover", "the agent of %s has announced its holdings", after.Spec.ClusterID)
	}
}

// recordFalse records an event when a condition of a cluster turns false.
func (r *Reconciler) recordFalse(before, after *brokerv1alpha1.ClusterAdvertisement, kind, action string) {
	is := meta.FindStatusCondition(after.Status.Conditions, kind)
	if is != nil && is.Status == metav1.ConditionFalse && !meta.IsStatusConditionFalse(before.Status.Conditions, kind) {
		r.recorder.Eventf(after, nil, corev1.EventTypeWarning, is.Reason, action, "%s", message.Clip(is.Message, message.MaxNote))
	}
}

// awaitingMessage returns the message of the condition Fresh while the broker waits for the cluster's holdings, ""
// otherwise.
func awaitingMessage(obj *brokerv1alpha1.ClusterAdvertisement) string {
	c := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionFresh)
	if c == nil || c.Reason != brokerv1alpha1.ReasonAwaitingHoldings {
		return ""
	}
	return c.Message
}
