package webhooks

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// WarnOfIdle warns of an idle time that has no effect, because the duration ends first. The duration may be nil.
func (v *Verdict) WarnOfIdle(spec *field.Path, idle *brokerv1alpha1.Idle, duration *metav1.Duration) {
	if idle != nil && duration != nil && idle.After.Duration >= duration.Duration {
		v.Warn("%s: %s is not shorter than the duration %s, so it has no effect: shorten it, or leave idle out",
			spec.Child("idle", "after"), idle.After.Duration, duration.Duration)
	}
}
