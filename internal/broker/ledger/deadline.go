package ledger

import (
	"time"
)

// Limits are how long the steps of setting up a placement may take.
type Limits struct {
	// Acknowledge is the time for a provider's agent to accept or refuse the placement. If the
	// agent enrols while the placement stands, the time counts from the agent's first offer.
	// Likewise, Ready counts from the first offer of the consumer's agent if that agent enrols
	// later.
	Acknowledge time.Duration
	// Ready is the time from the provider's acknowledgement until the consumer's virtual node
	// must be Ready for the first time.
	Ready time.Duration
	// Network is how long setting up the network between the two clusters may take. The time
	// starts when the requester reports that only the network is missing, and ends when the node
	// is Ready. See State.MayConnect.
	Network time.Duration
}

// Due names what happens at a deadline of a reservation.
type Due string

// Values of Due.
const (
	// DueNothing: the reservation has no deadline.
	DueNothing Due = ""
	// DueExpiry: the time of the reservation is over.
	DueExpiry Due = "Expiry"
	// DueAcknowledgement: the provider did not answer in time.
	DueAcknowledgement Due = "Unacknowledged"
	// DueNodes: the nodes that the provider creates for the placement were not Ready in time.
	DueNodes Due = "NeverProvisioned"
	// DueReady: the virtual node did not become Ready in time.
	DueReady Due = "NeverReady"
	// DueNetwork: the virtual node did not become Ready in time because the network between the
	// clusters was still being set up.
	DueNetwork Due = "NeverConnected"
	// DueQueue: the request has waited in the queue for as long as it may.
	DueQueue Due = "QueueTimeout"
	// DueNotice: the placement must now make room for a reservation with a higher priority.
	DueNotice Due = "Notice"
	// DueRecall: the time has come at which a recalled placement must end.
	DueRecall Due = "Recall"
)

// Postpone returns the later time to which a deadline moves, the same time if it does not move, and
// zero if the deadline must be ignored.
type Postpone func(at time.Time, due Due) time.Time

// Deadline returns the next deadline of a reservation and what happens then. It compares the
// deadlines after it has applied postpone to each of them, because a postponed deadline must not
// hide another one. A nil postpone moves none. If several deadlines are equal, the first one in
// the order end, notice, recall, placement counts. Without a deadline, it returns zero and
// DueNothing.
func (s *State) Deadline(r *Reservation, limits Limits, postpone Postpone) (time.Time, Due) {
	var first earliest
	switch {
	case r.EndReason != "":
	case r.Waiting != nil:
		first.add(r.Waiting.Until, DueQueue, postpone)
	default:
		first.add(r.Until, DueExpiry, postpone)
		if r.Notice != nil {
			first.add(r.Notice.Ends, DueNotice, postpone)
		}
		if c := r.CalledBack(); c != nil {
			first.add(c.Ends, DueRecall, postpone)
		}
		if at, due := s.setupDeadline(r, limits); due != DueNothing {
			first.add(at, due, postpone)
		}
	}
	return first.at, first.due
}

// earliest is the earliest of the deadlines that were added to it.
type earliest struct {
	at  time.Time
	due Due
}

func (e *earliest) add(at time.Time, due Due, postpone Postpone) {
	if postpone != nil {
		at = postpone(at, due)
	}
	if !at.IsZero() && (e.due == DueNothing || at.Before(e.at)) {
		e.at, e.due = at, due
	}
}

// setupDeadline returns when the current placement must have been accepted by its provider or, after
// that, when its node must be Ready for the first time, and what happens if it is not. It returns
// DueNothing if neither is awaited.
func (s *State) setupDeadline(r *Reservation, limits Limits) (time.Time, Due) {
	p := r.Current()
	if !r.Stands(p) || !s.HasAgent(p.Provider) && r.Beside(p) == nil {
		return time.Time{}, DueNothing
	}
	if v := r.ProvisioningOf(p); v != nil {
		return v.Ends, DueNodes
	}
	if s.answeredAt(p).IsZero() {
		return s.clusters.knownSince(p.Provider, p.AssignedAt.Time()).Add(limits.Acknowledge), DueAcknowledgement
	}
	if p.EverReady || !s.HasAgent(r.Requester) {
		return time.Time{}, DueNothing
	}
	return s.nodeDeadline(r, p, limits)
}

// answeredAt returns when the provider of a placement accepted it, zero if it has not. A provider
// without an agent accepts at once.
func (s *State) answeredAt(p *Placement) Instant {
	if !s.HasAgent(p.Provider) {
		return p.AssignedAt
	}
	return p.AcknowledgedAt
}

// nodeDeadline returns when the node of a placement must be Ready for the first time, and what
// happens if it is not.
func (s *State) nodeDeadline(r *Reservation, p *Placement, limits Limits) (time.Time, Due) {
	at := s.clusters.knownSince(r.Requester, s.answeredAt(p).Time()).Add(limits.Ready)
	if connected := p.NodeSince.Time().Add(limits.Network); p.IsConnecting() && connected.After(at) {
		return connected, DueNetwork
	}
	return at, DueReady
}

// ConnectBy returns the time by which the node of a placement must be Ready for the first time. Call
// it only for a standing placement for which IsConnecting is true.
func (s *State) ConnectBy(r *Reservation, p *Placement, limits Limits) time.Time {
	by, _ := s.nodeDeadline(r, p, limits)
	return by
}

// knownSince returns when the cluster's agent could first know of an event at the given time: at
// once, or with its first offer if it enrolled later.
func (cs *clusters) knownSince(clusterID string, at time.Time) time.Time {
	if c := cs.byID[clusterID]; c != nil && c.AgentSince.After(at) {
		return c.AgentSince
	}
	return at
}
