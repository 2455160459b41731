package wire

import (
	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
)

// LendingTerms are those that an operator has written; without a policy everybody may
// come.
func LendingTerms(policy *agentv1alpha1.LendingPolicy) lending.Terms {
	if policy == nil {
		return lending.Terms{}
	}
	out := lending.Terms{Paused: policy.Spec.Paused}
	if c := policy.Spec.Consumers; c != nil {
		out.Allow, out.Deny = names(c.Allow), names(c.Deny)
	}
	return out
}

func names(ids []agentv1alpha1.ClusterID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// FromLending makes what an advertisement says of terms.
func FromLending(t lending.Terms) v1.Lending {
	return v1.Lending{Paused: t.Paused, Allow: t.Allow, Deny: t.Deny}
}

// ToLending is the reverse of FromLending.
func ToLending(in v1.Lending) lending.Terms {
	return lending.Terms{Paused: in.Paused, Allow: in.Allow, Deny: in.Deny}
}
