// Package lending decides to whom a cluster lends. The provider's agent and the broker share
// this rule: the agent has the last word, and the broker avoids proposing what the agent would
// refuse.
package lending

import (
	"fmt"
	"slices"
)

// Terms restrict to whom a cluster lends. The zero Terms allow every cluster. The broker's
// journal stores them, so a field must keep its name and meaning.
type Terms struct {
	// Paused stops all new placements.
	Paused bool `json:"paused,omitempty"`
	// Allow lists the only clusters it lends to; empty means all.
	Allow []string `json:"allow,omitempty"`
	// Deny lists clusters it does not lend to, whatever Allow says.
	Deny []string `json:"deny,omitempty"`
}

// Reason says why a cluster does not lend to another.
type Reason string

// Reasons appear in status and explanations. They are stable.
const (
	// LendingPaused: the cluster grants nothing new to anyone.
	LendingPaused Reason = "LendingPaused"
	// ConsumerDenied: the cluster grants nothing new to this consumer.
	ConsumerDenied Reason = "ConsumerDenied"
	// Recalled: the cluster asked for the reservation back.
	Recalled Reason = "Recalled"
)

// Refuses returns why nothing new is granted to the consumer, or "" if it may be granted.
func (t *Terms) Refuses(consumer string) Reason {
	switch {
	case t == nil:
		return ""
	case t.IsPaused():
		return LendingPaused
	case slices.Contains(t.Deny, consumer), len(t.Allow) > 0 && !slices.Contains(t.Allow, consumer):
		return ConsumerDenied
	default:
		return ""
	}
}

// IsPaused reports whether all new placements are stopped. It accepts a nil receiver.
func (t *Terms) IsPaused() bool { return t != nil && t.Paused }

// OrNil returns a pointer to t, or nil if t refuses nobody.
func (t Terms) OrNil() *Terms {
	if !t.Paused && len(t.Allow) == 0 && len(t.Deny) == 0 {
		return nil
	}
	return &t
}

// Message words the reason for the consumer. It reveals nothing about other clusters.
func (r Reason) Message(consumer string) string {
	switch r {
	case LendingPaused:
		return "lending is paused"
	case Recalled:
		return "has called this reservation back"
	default:
		return fmt.Sprintf("does not lend to %s", consumer)
	}
}
