package lendingpolicy

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

func describeStatus(policy *agentv1alpha1.LendingPolicy, all []agentv1alpha1.ProviderInstruction, now time.Time) {
	s, paused := &policy.Status, wire.LendingPolicy(policy).Paused
	s.ObservedGeneration, s.Message, s.Placements, s.Refused = policy.Generation, describeLending(&policy.Spec, paused), 0, 0
	s.Recalling, s.RecalledUntil = 0, nil
	for i := range all {
		if c := all[i].Status.Recalled; c != nil {
			s.Recalling++
			if s.RecalledUntil == nil || s.RecalledUntil.Before(&c.EndsAt) {
				s.RecalledUntil = c.EndsAt.DeepCopy()
			}
		}
		switch {
		case all[i].Status.Enforced:
			s.Placements++
		case isRefusedByPolicy(&all[i]):
			s.Refused++
		}
	}
	set := func(kind string, status metav1.ConditionStatus, reason, text string) {
		message.SetCondition(&s.Conditions, kind, status, reason, text, policy.Generation, now)
	}
	set(agentv1alpha1.ConditionReady, metav1.ConditionTrue, agentv1alpha1.ReasonApplied, "this policy is in force")
	if paused {
		set(agentv1alpha1.ConditionLending, metav1.ConditionFalse, string(lending.LendingPaused), s.Message)
	} else {
		set(agentv1alpha1.ConditionLending, metav1.ConditionTrue, agentv1alpha1.ReasonLending, s.Message)
	}
}

// isRefusedByPolicy reports whether a placement was refused because of the policy, and not, for
// example, for lack of capacity.
func isRefusedByPolicy(inst *agentv1alpha1.ProviderInstruction) bool {
	c := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionAcknowledged)
	return c != nil && c.Status == metav1.ConditionFalse &&
		slices.Contains([]string{string(lending.LendingPaused), string(lending.ConsumerDenied), string(lending.Recalled)}, c.Reason)
}

// describeLending describes the policy in one sentence. It counts clusters without naming them,
// because many people read and copy the message.
func describeLending(spec *agentv1alpha1.LendingPolicySpec, paused bool) string {
	allowed, denied := 0, 0
	if c := spec.Consumers; c != nil {
		allowed, denied = len(c.Allow), len(c.Deny)
	}
	switch {
	case spec.Paused && len(spec.Recalls) == 0:
		return "lending is paused: nothing new is granted, existing placements stay"
	case paused:
		return "lending is paused: nothing new is granted, and the placements in recalls are called back"
	case allowed > 0:
		return fmt.Sprintf("lends to the %d clusters in consumers.allow", allowed)
	case denied > 0:
		return fmt.Sprintf("lends to every cluster except the %d in consumers.deny", denied)
	default:
		return "lends to every cluster"
	}
}
