package ledger

import (
	"time"
)

// Limits bound how long a placement may take.
type Limits struct {
	// Acknowledge is the time for a provider's agent to answer. For an agent that enrols while
	// the placement stands, it counts from the agent's first offer. The same holds for Ready
	// and the consumer's agent.
	Acknowledge time.Duration
	// Ready is the time from the provider's acknowledgement until the consumer's virtual node
	// must be Ready for the first time.
	Ready time.Duration
	// Network is how long the network between the two clusters may take to be set up. It starts
	// when the requester reports that only the network is missing, and the node must be Ready
	// when it ends. See State.MayConnect.
	Network time.Duration
}

// Due is the step that a reservation takes at a deadline.
type Due string

// Values of Due.
const (
	// DueNothing: the reservation has no deadline.
	DueNothing Due = ""
	// DueExpiry: its time is over.
	DueExpiry Due = "Expiry"
	// DueAcknowledgement: the provider did not answer in time.
	DueAcknowledgement Due = "Unacknowledged"
	// DueReady: the virtual node did not become Ready in time.
	DueReady Due = "NeverReady"
	// DueNetwork: the same, while the network between the clusters was being set up.
	DueNetwork Due = "NeverConnected"
	// DueQueue: it has waited as long as allowed.
	DueQueue Due = "QueueTimeout"
	// DueNotice: its placement has to make room for a higher priority.
	DueNotice Due = "Notice"
	// DueRecall: its provider has called its placement back.
	DueRecall Due = "Recall"
)

// Deadline returns the next deadline of a reservation and what happens then.
func (s *State) Deadline(r *Reservation, limits Limits) (time.Time, Due) {
	if r.EndReason != "" {
		return time.Time{}, DueNothing
	}
	if r.Waiting != nil {
		return r.Waiting.Until, DueQueue
	}
	at, due := r.nextEnd()
	p := r.Current()
	if !r.Stands(p) {
		return at, due
	}
	answered := s.answeredAt(p)
	if !s.HasAgent(p.Provider) && r.Beside(p) == nil {
		return at, due
	}
	if answered.IsZero() {
		if t := s.clusters.knownSince(p.Provider, p.AssignedAt.Time()).Add(limits.Acknowledge); t.Before(at) {
			return t, DueAcknowledgement
		}
		return at, due
	}
	if !p.EverReady && s.HasAgent(r.Requester) {
		if t, missed := s.nodeDeadline(r, p, limits); t.Before(at) {
			return t, missed
		}
	}
	return at, due
}

// answeredAt returns when the provider of a placement accepted it. Where no agent can accept it,
// the placement's node has a deadline only while the placement beside it waits for the node.
func (s *State) answeredAt(p *Placement) Instant {
	if !s.HasAgent(p.Provider) {
		return p.AssignedAt
	}
	return p.AcknowledgedAt
}

// nodeDeadline returns when the node of a placement must be Ready for the first time, and what was
// missed otherwise.
func (s *State) nodeDeadline(r *Reservation, p *Placement, limits Limits) (time.Time, Due) {
	at := s.clusters.knownSince(r.Requester, s.answeredAt(p).Time()).Add(limits.Ready)
	if connected := p.NodeSince.Time().Add(limits.Network); p.IsConnecting() && connected.After(at) {
		return connected, DueNetwork
	}
	return at, DueReady
}

// ConnectBy returns when the node of a placement must be Ready whose network is being set up.
func (s *State) ConnectBy(r *Reservation, p *Placement, limits Limits) time.Time {
	by, _ := s.nodeDeadline(r, p, limits)
	return by
}

// nextEnd returns when a reservation has to leave its placement, and why.
func (r *Reservation) nextEnd() (time.Time, Due) {
	at, due := r.Until, DueExpiry
	if r.Notice != nil && r.Notice.Ends.Before(at) {
		at, due = r.Notice.Ends, DueNotice
	}
	if c := r.CalledBack(); c != nil && c.Ends.Before(at) {
		at, due = c.Ends, DueRecall
	}
	return at, due
}

// knownSince returns when the cluster's agent could first know of an earlier event. For an
// agent that enrolled later, its deadlines run from its first offer.
func (cs *clusters) knownSince(clusterID string, at time.Time) time.Time {
	if c := cs.byID[clusterID]; c != nil && c.AgentSince.After(at) {
		return c.AgentSince
	}
	return at
}
