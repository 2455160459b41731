package ledger

import (
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
)

// HandshakeRefused is the reason with which a requester gives up a placement whose provider sent
// an invalid handshake message. No honest provider sends such a message, but only the requester
// can report it. So this reason counts against the provider only once another provider has served
// the reservation, like the reason that a node did not become Ready.
const HandshakeRefused = "HandshakeRefused"

// PodsDoNotFit is the reason with which a provider refuses pods that are not certain to find room on
// its nodes, although its sums allow them. While other placements hold capacity there, such a refusal
// breaks no promise: an advertisement does not say where their pods will start. Otherwise it counts
// like any other, so that a provider that refuses everything is not tried first again and again.
const PodsDoNotFit = "PodsDoNotFit"

// neverServed lists the reasons for giving up a placement whose node never became Ready.
var neverServed = []string{string(DueReady), string(DueNetwork), HandshakeRefused}

// NodeReady records a report of the consumer that its virtual node is Ready, or no longer Ready.
type NodeReady struct {
	PlacementRef
	Ready bool `json:"ready"`
}

func (e *NodeReady) checkAgainst(s *State) error { return s.checkStanding(e.PlacementRef) }

// applyTo stores whether the node is Ready. If the node is Ready for the first time, the provider has
// kept its promise. In that case, the earlier placements that were given up because their nodes never
// became Ready count as broken promises of their providers, back to the last placement whose node was
// Ready.
func (e *NodeReady) applyTo(s *State, at time.Time) {
	r, p := s.findPlacement(e.PlacementRef)
	p.Ready, r.Changed = e.Ready, s.position
	p.noteNode(e.Ready, at)
	if !e.Ready || p.EverReady {
		return
	}
	p.EverReady = true
	s.clusters.noteServed(at, r, p)
	s.clusters.byID[p.Provider].Record.Keep(at, at.Sub(p.AssignedAt.Time()))
	for n := p.Number - 1; n > r.Skipped; n-- {
		earlier := r.Placement(n)
		if earlier.EverReady {
			return
		}
		if slices.Contains(neverServed, earlier.Withdrawn) {
			in := &s.clusters.byID[earlier.Provider].Record
			in.Break(at, &in.NeverReady, reputation.Promise)
			s.clusters.noteFailed(at, r, earlier, reputation.Failure)
		}
	}
}

// nodeSettles is how long a node must be Ready to end an outage.
const nodeSettles = time.Minute

// noteNode updates since when the node is no longer Ready. An outage that ended less than
// nodeSettles ago continues.
func (p *Placement) noteNode(ready bool, at time.Time) {
	switch known := p.Outage; {
	case ready:
		if p.EverReady && !p.NodeSince.IsZero() {
			p.Outage = &Outage{Since: p.NodeSince, Ended: instantOf(at), Flaps: known != nil && known.Since == p.NodeSince}
		}
		p.NodeSince = 0
	case !p.EverReady || !p.NodeSince.IsZero():
	case known != nil && at.Before(known.Ended.Time().Add(nodeSettles)):
		p.NodeSince = known.Since
	default:
		p.NodeSince = instantOf(at)
	}
}

func (cs *clusters) blameProvider(at time.Time, r *Reservation, p *Placement, w *Withdraw) {
	in, points := &cs.byID[p.Provider].Record, reputation.Failure
	switch {
	case w.Refused && w.Reason == PodsDoNotFit && p.AcknowledgedAt.IsZero() && cs.byID[p.Provider].Placements() > 1:
		return // more than this placement
	case w.Reason == ProviderLost:
		in.Break(at, &in.Dropped, reputation.Promise)
		return // a silent provider gets nothing new anyway
	case w.Reason == NodeLost, w.Refused && p.EverReady:
		in.Break(at, &in.Dropped, reputation.Promise)
	case w.Refused:
		in.Break(at, &in.Refused, reputation.Promise/2)
	case w.Reason == string(DueAcknowledgement), w.Reason == string(DueNodes):
		in.Break(at, &in.Unanswered, reputation.Promise)
	default:
		return
	}
	if w.Refused && cs.byID[p.Provider].Lending.Refuses(r.Requester) != "" {
		return
	}
	if w.Refused && p.AcknowledgedAt.IsZero() {
		points = reputation.Refusal
	}
	cs.noteFailed(at, r, p, points)
}

// noteFailed adds a failure of a provider towards a requester, noteServed a success.
func (cs *clusters) noteFailed(at time.Time, r *Reservation, p *Placement, points int32) {
	c := cs.byID[p.Provider]
	c.Providing = c.Providing.Failed(at, p.AssignedAt.Time(), r.Requester, points)
}

func (cs *clusters) noteServed(at time.Time, r *Reservation, p *Placement) {
	c := cs.byID[p.Provider]
	c.Providing = c.Providing.Served(at, p.AssignedAt.Time(), r.Requester)
}
