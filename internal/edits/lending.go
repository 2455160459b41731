package edits

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// NewPolicy returns an empty LendingPolicy with the only name that is valid.
func NewPolicy() *agentv1alpha1.LendingPolicy {
	return &agentv1alpha1.LendingPolicy{ObjectMeta: metav1.ObjectMeta{Name: agentv1alpha1.LendingPolicyName}}
}

// SetRecall adds an entry to spec.recalls. It replaces an entry of the same reservation or consumer.
func SetRecall(policy *agentv1alpha1.LendingPolicy, entry agentv1alpha1.Recall) {
	i := slices.IndexFunc(policy.Spec.Recalls, func(r agentv1alpha1.Recall) bool {
		return r.Reservation == entry.Reservation && r.Consumer == entry.Consumer
	})
	if i < 0 {
		policy.Spec.Recalls = append(policy.Spec.Recalls, entry)
		return
	}
	policy.Spec.Recalls[i] = entry
}

// EndRecall removes the entries for a reservation and for its consumer from spec.recalls. An entry for all consumers stays.
func EndRecall(policy *agentv1alpha1.LendingPolicy, reservation, consumer string) {
	policy.Spec.Recalls = slices.DeleteFunc(policy.Spec.Recalls, func(r agentv1alpha1.Recall) bool {
		return r.Reservation == reservation || r.Consumer == consumer
	})
}
