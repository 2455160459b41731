// Package lending decides whether a cluster lends to a consumer. The provider's agent and the
// broker share this rule: the agent has the last word, and the broker avoids proposals that the
// agent would refuse.
package lending

import (
	"fmt"
	"slices"
)

// Policy restricts the consumers that a cluster lends to. The zero Policy allows every cluster. The
// broker's journal stores it, so a field must keep its name and meaning.
type Policy struct {
	// Paused stops all new placements.
	Paused bool `json:"paused,omitempty"`
	// Unready stops all new placements while the cluster cannot serve them. It is the reason of
	// the cluster's condition LiqoReady; "" for a cluster that can.
	Unready string `json:"unready,omitempty"`
	// Allow lists the only consumers; if empty, all are allowed.
	Allow []string `json:"allow,omitempty"`
	// Deny lists excluded consumers. It takes precedence over Allow.
	Deny []string `json:"deny,omitempty"`
}

// Reason is the reason why a cluster does not lend to a consumer.
type Reason string

// Reasons appear in statuses and explanations, so they must not change.
const (
	// LendingPaused: the cluster grants nothing new to any consumer.
	LendingPaused Reason = "LendingPaused"
	// ProviderNotReady: the cluster cannot peer, for example because its Liqo does not run.
	ProviderNotReady Reason = "ProviderNotReady"
	// ConsumerDenied: the cluster grants nothing new to this consumer.
	ConsumerDenied Reason = "ConsumerDenied"
	// Recalled: the cluster asked for the reservation back.
	Recalled Reason = "Recalled"
)

// Refuses returns the reason to grant the consumer nothing new, or "" if the policy allows it.
func (p *Policy) Refuses(consumer string) Reason {
	switch {
	case p == nil:
		return ""
	case p.IsPaused():
		return LendingPaused
	case p.Unready != "":
		return ProviderNotReady
	case slices.Contains(p.Deny, consumer), len(p.Allow) > 0 && !slices.Contains(p.Allow, consumer):
		return ConsumerDenied
	default:
		return ""
	}
}

// IsPaused reports whether all new placements are stopped. It accepts a nil receiver.
func (p *Policy) IsPaused() bool { return p != nil && p.Paused }

// OrNil returns a pointer to p, or nil if p restricts nothing.
func (p Policy) OrNil() *Policy {
	if !p.Paused && p.Unready == "" && len(p.Allow) == 0 && len(p.Deny) == 0 {
		return nil
	}
	return &p
}

// Message explains the reason to the consumer. It reveals nothing about other clusters.
func (r Reason) Message(consumer string) string {
	switch r {
	case LendingPaused:
		return "lending is paused"
	case ProviderNotReady:
		return "cannot peer at present: its Liqo is missing or does not run"
	case Recalled:
		return "has called this reservation back"
	default:
		return fmt.Sprintf("does not lend to %s", consumer)
	}
}
