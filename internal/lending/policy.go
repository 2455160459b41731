// Package lending decides whether a cluster lends to a consumer. The provider's agent and the
// broker use the same rule: the agent has the last word, and the broker avoids placements that the
// agent would refuse.
package lending

import (
	"fmt"
	"slices"
)

// Policy says to which consumers a cluster lends. The zero Policy allows every consumer. The
// broker's journal stores policies, so the fields must keep their names and meanings.
type Policy struct {
	// Paused stops all new placements, whoever the consumer is.
	Paused bool `json:"paused,omitempty"`
	// Unready, if not empty, is why the cluster accepts no new placements at all: Uninstalling, or
	// the reason of the condition LiqoReady while the cluster cannot peer. With NotPeering, the
	// cluster accepts placements of some requesters.
	Unready string `json:"unready,omitempty"`
	// Allow lists the consumers to which the cluster lends. If it is empty, the cluster lends to
	// all.
	Allow []string `json:"allow,omitempty"`
	// Deny lists consumers to which the cluster does not lend. It takes precedence over Allow.
	Deny []string `json:"deny,omitempty"`
}

// Values of Policy.Unready besides the reasons of the condition LiqoReady.
const (
	// Uninstalling means that the cluster's agent is being uninstalled.
	Uninstalling = "Uninstalling"
	// NotPeering means that the cluster's agent runs with --peering-mode=none. Such a cluster can
	// only serve requesters that do not peer either.
	NotPeering = "NotPeering"
)

// Reason is the reason why a cluster does not lend to a consumer.
type Reason string

// Reasons appear in statuses and explanations, so their values must not change.
const (
	// LendingPaused means that the cluster accepts no new placements at all.
	LendingPaused Reason = "LendingPaused"
	// ProviderNotReady means that the cluster cannot peer, for example because its Liqo does not
	// run or its agent never peers.
	ProviderNotReady Reason = "ProviderNotReady"
	// ProviderLeaving means that the cluster's agent is being uninstalled, or has been.
	ProviderLeaving Reason = "ProviderLeaving"
	// ConsumerDenied means that the cluster accepts no new placements of this consumer.
	ConsumerDenied Reason = "ConsumerDenied"
	// Recalled means that the cluster asked for the reservation back.
	Recalled Reason = "Recalled"
)

// Refuses returns the reason for which the cluster accepts no new placement of the consumer; "" if
// the policy allows it. It accepts a nil receiver, which allows everything. It cannot know whether
// the consumer peers, so it allows everything that SkipsPeering restricts.
func (p *Policy) Refuses(consumer string) Reason {
	switch {
	case p == nil:
		return ""
	case p.IsLeaving():
		return ProviderLeaving
	case p.IsPaused():
		return LendingPaused
	case p.Unready != "" && !p.SkipsPeering():
		return ProviderNotReady
	case slices.Contains(p.Deny, consumer), len(p.Allow) > 0 && !slices.Contains(p.Allow, consumer):
		return ConsumerDenied
	default:
		return ""
	}
}

// IsPaused reports whether the policy stops all new placements. It accepts a nil receiver.
func (p *Policy) IsPaused() bool { return p != nil && p.Paused }

// IsLeaving reports whether the cluster's agent is being uninstalled, or has been. It accepts a nil
// receiver.
func (p *Policy) IsLeaving() bool { return p != nil && p.Unready == Uninstalling }

// SkipsPeering reports whether the cluster's agent never peers. It accepts a nil receiver.
func (p *Policy) SkipsPeering() bool { return p != nil && p.Unready == NotPeering }

// OrNil returns a pointer to p, or nil if p restricts nothing.
func (p Policy) OrNil() *Policy {
	if !p.Paused && p.Unready == "" && len(p.Allow) == 0 && len(p.Deny) == 0 {
		return nil
	}
	return &p
}

// Message returns the reason as a text for the consumer. It reveals nothing about other clusters.
func (r Reason) Message(consumer string) string {
	switch r {
	case LendingPaused:
		return "lending is paused"
	case ProviderNotReady:
		return "cannot peer at present: its Liqo is missing or does not run, or its agent has peeringMode=none"
	case ProviderLeaving:
		return "no longer lends: its agent is being uninstalled"
	case Recalled:
		return "has called this reservation back"
	default:
		return fmt.Sprintf("does not lend to %s", consumer)
	}
}
