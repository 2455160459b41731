package wire

import (
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
)

// defaultNotice is the notice of a recall that does not set one.
const defaultNotice = 10 * time.Minute

// LendingPolicy converts the policy of a cluster's operator. The result also denies new placements
// to consumers whose placements the policy recalls. Without a policy, the cluster lends to every
// consumer.
func LendingPolicy(policy *agentv1alpha1.LendingPolicy) lending.Policy {
	if policy == nil {
		return lending.Policy{}
	}
	out := lending.Policy{Paused: policy.Spec.Paused}
	if c := policy.Spec.Consumers; c != nil {
		out.Allow, out.Deny = namesOf(c.Allow), namesOf(c.Deny)
	}
	for _, recall := range policy.Spec.Recalls {
		switch recall.Consumer {
		case "":
		case agentv1alpha1.EveryConsumer:
			out.Paused = true
		default:
			out.Deny = append(out.Deny, recall.Consumer)
		}
	}
	return out
}

// Recalls returns the recalls in the policy of a cluster's operator; none without a
// policy.
func Recalls(policy *agentv1alpha1.LendingPolicy) []lending.Recall {
	if policy == nil {
		return nil
	}
	out := make([]lending.Recall, len(policy.Spec.Recalls))
	for i, r := range policy.Spec.Recalls {
		out[i] = lending.Recall{
			Everybody: r.Consumer == agentv1alpha1.EveryConsumer, Consumer: r.Consumer, Reservation: r.Reservation,
			Notice: defaultNotice, Message: r.Message,
		}
		if r.Notice != nil {
			out[i].Notice = r.Notice.Duration
		}
	}
	return out
}

func namesOf(ids []agentv1alpha1.ClusterID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// FromLending converts a policy to the type that advertisements use.
func FromLending(t lending.Policy) v1.Lending {
	return v1.Lending{Paused: t.Paused, Unready: t.Unready, Allow: t.Allow, Deny: t.Deny}
}

// ToLending converts the policy in an advertisement.
func ToLending(in v1.Lending) lending.Policy {
	return lending.Policy{Paused: in.Paused, Unready: in.Unready, Allow: in.Allow, Deny: in.Deny}
}
