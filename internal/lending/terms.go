// Package lending says to whom a cluster lends: one rule for its own agent, which has the
// last word, and for the broker, which spares both sides what would be refused.
package lending

import (
	"fmt"
	"slices"
)

// Terms are those on which a cluster lends. The zero Terms lend to every cluster. They are
// kept in the broker's journal: a field keeps its name and meaning.
type Terms struct {
	// Paused grants nothing new to anybody.
	Paused bool `json:"paused,omitempty"`
	// Allow are the only clusters that it lends to; everybody if empty.
	Allow []string `json:"allow,omitempty"`
	// Deny are clusters that it does not lend to, whatever Allow says.
	Deny []string `json:"deny,omitempty"`
}

// Reason is why a cluster does not lend to another.
type Reason string

// Reasons, as status and explanations name them. They are stable.
const (
	// LendingPaused: it grants nothing new to anybody.
	LendingPaused Reason = "LendingPaused"
	// ConsumerDenied: it grants nothing new to this one.
	ConsumerDenied Reason = "ConsumerDenied"
	// Recalled: it wants the reservation back.
	Recalled Reason = "Recalled"
)

// Refuses is why nothing new is granted to a consumer, "" if it may come.
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

// IsPaused is whether nothing new is granted to anybody.
func (t *Terms) IsPaused() bool { return t != nil && t.Paused }

// OrNil is a pointer to t, nil where it refuses nobody.
func (t Terms) OrNil() *Terms {
	if !t.Paused && len(t.Allow) == 0 && len(t.Deny) == 0 {
		return nil
	}
	return &t
}

// Message tells the consumer, and nothing of anybody else.
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
