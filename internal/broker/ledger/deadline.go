package ledger

import (
	"time"
)

// Limits are how long a placement may take.
type Limits struct {
	// Acknowledge is how long a provider's agent may take to answer. For an agent
	// that enrols while the placement stands it counts from its first offer, as
	// Ready does for the consumer's.
	Acknowledge time.Duration
	// Ready is how long, from the provider's acknowledgement, the consumer's
	// virtual node may take to become Ready for the first time.
	Ready time.Duration
}

// Due is what has to happen to a reservation by the passing of time.
type Due string

// What can be due.
const (
	// DueNothing: only an event changes it.
	DueNothing Due = ""
	// DueExpiry: its time is over.
	DueExpiry Due = "Expiry"
	// DueAcknowledgement: the provider did not answer in time.
	DueAcknowledgement Due = "Unacknowledged"
	// DueReady: the virtual node did not become Ready in time.
	DueReady Due = "NeverReady"
	// DueQueue: it waits no longer.
	DueQueue Due = "QueueTimeout"
	// DueNotice: its placement has to make room now.
	DueNotice Due = "Notice"
	// DueRecall: its provider wants its placement back now.
	DueRecall Due = "Recall"
)

// Deadline is the next instant at which time changes the reservation, and how.
func (s *State) Deadline(r *Reservation, limits Limits) (time.Time, Due) {
	if r.EndReason != "" {
		return time.Time{}, DueNothing
	}
	if r.Waiting != nil {
		return r.Waiting.Until, DueQueue
	}
	at, due := r.ends()
	p := r.Current()
	if !r.Stands(p) {
		return at, due
	}
	answered := p.AcknowledgedAt
	if !s.HasAgent(p.Provider) {
		if r.Beside(p) == nil {
			return at, due
		}
		// Nobody answers for it; it must not be waited for in vain all the same.
		answered = p.AssignedAt
	}
	if answered.IsZero() {
		if t := s.heardBy(p.Provider, p.AssignedAt.Time()).Add(limits.Acknowledge); t.Before(at) {
			return t, DueAcknowledgement
		}
		return at, due
	}
	if !p.EverReady && s.HasAgent(r.Requester) {
		if t := s.heardBy(r.Requester, answered.Time()).Add(limits.Ready); t.Before(at) {
			return t, DueReady
		}
	}
	return at, due
}

// ends is when a reservation has to go from where it is, and why.
func (r *Reservation) ends() (time.Time, Due) {
	at, due := r.Until, DueExpiry
	if r.Notice != nil && r.Notice.Ends.Before(at) {
		at, due = r.Notice.Ends, DueNotice
	}
	if c := r.CalledBack(); c != nil && c.Ends.Before(at) {
		at, due = c.Ends, DueRecall
	}
	return at, due
}

// heardBy is when the cluster's agent could first know of something that happened
// at an instant: one that enrols later has its whole time from then on.
func (s *State) heardBy(clusterID string, at time.Time) time.Time {
	if since := s.clusters[clusterID].AgentSince; since.After(at) {
		return since
	}
	return at
}
