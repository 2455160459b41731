package ledger

import (
	"slices"
	"time"
)

// Record counts the outcomes of the placements on a provider. It needs no events of its own: it is
// computed from events that are journaled for other reasons.
//
// The share of kept promises is the mean of a Beta distribution that begins with one kept and one
// broken promise (A. Jøsang, R. Ismail, The Beta Reputation System, 2002). At the end of every
// week, Kept and Broken are halved. Only whole weeks and integers are used, so that the result is
// the same on every machine.
type Record struct {
	// Granted counts all placements, Ready those whose virtual node became Ready.
	Granted int64 `json:"granted,omitempty"`
	Ready   int64 `json:"ready,omitempty"`
	// Refused counts the placements that the provider itself gave up before their nodes were Ready,
	// Unanswered those that it did not acknowledge in time. NeverReady counts those whose node did not
	// become Ready in time, although another provider's node then became Ready for the same
	// reservation. Without this success elsewhere, the consumer may be at fault.
	Refused    int64 `json:"refused,omitempty"`
	Unanswered int64 `json:"unanswered,omitempty"`
	NeverReady int64 `json:"neverReady,omitempty"`
	// Dropped counts the placements that had served and were then given up because of the provider.
	Dropped int64 `json:"dropped,omitempty"`
	// ToReady is the sum, over all placements in Ready, of the time from grant to Ready.
	ToReady time.Duration `json:"toReady,omitempty"`
	// Kept and Broken count promises in thousandths. They include the weekly halvings up to Week,
	// which is a number of weeks since the Unix epoch.
	Kept   int64 `json:"kept,omitempty"`
	Broken int64 `json:"broken,omitempty"`
	Week   int64 `json:"week,omitempty"`
}

const (
	// promise is the weight of one promise. A refused placement adds only half of it to Broken,
	// because the provider refuses at once.
	promise = 1000
	week    = int64(7 * 24 * time.Hour / time.Second)
)

// Share returns the share of promises that the provider has kept, from 0 to 1. It returns false if
// there is no record yet.
func (r Record) Share(now time.Time) (float64, bool) {
	r.ageTo(now)
	if r.Kept+r.Broken == 0 {
		return 0, false
	}
	return float64(r.Kept+promise) / float64(r.Kept+r.Broken+2*promise), true
}

// MeanToReady returns the mean time from grant to Ready, 0 if no node has become Ready yet.
func (r Record) MeanToReady() time.Duration {
	if r.Ready == 0 {
		return 0
	}
	return r.ToReady / time.Duration(r.Ready)
}

// HandshakeRefused is the reason with which a requester gives up a placement whose provider sent
// an invalid handshake message. No honest provider sends such a message, but only the requester
// can report it. So this reason counts against the provider only once another provider has served
// the reservation, like the reason that a node did not become Ready.
const HandshakeRefused = "HandshakeRefused"

// PodsDoNotFit is the reason with which a provider refuses pods that are not certain to find room on
// its nodes, although its sums allow them. Such a refusal breaks no promise: an advertisement does
// not say where pods that were promised to others will start.
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
	switch {
	case e.Ready:
		p.NodeSince = 0
	case p.EverReady && p.NodeSince.IsZero():
		p.NodeSince = instantOf(at)
	}
	if !e.Ready || p.EverReady {
		return
	}
	p.EverReady = true
	s.clusters.noteServed(at, r, p)
	record := s.clusters.recordOf(p)
	record.addKept(at)
	record.Ready++
	record.ToReady += max(at.Sub(p.AssignedAt.Time()), 0)
	for n := p.Number - 1; n > r.Skipped; n-- {
		earlier := r.Placement(n)
		if earlier.EverReady {
			return
		}
		if slices.Contains(neverServed, earlier.Withdrawn) {
			in := s.clusters.recordOf(earlier)
			in.addBroken(at, &in.NeverReady, promise)
			s.clusters.noteFailed(at, r, earlier, failurePoints)
		}
	}
}

// recordLeft updates the record and the conduct of a provider when a placement is given up, if the
// provider is to blame for it.
func (cs *clusters) recordLeft(at time.Time, r *Reservation, p *Placement, w *Withdraw) {
	if w.Refused && w.Reason == PodsDoNotFit && p.AcknowledgedAt.IsZero() {
		return
	}
	in := cs.recordOf(p)
	switch {
	case w.Reason == ProviderLost, w.Reason == NodeLost, w.Refused && p.EverReady:
		in.addBroken(at, &in.Dropped, promise)
	case w.Refused:
		in.addBroken(at, &in.Refused, promise/2)
	case w.Reason == string(DueAcknowledgement):
		in.addBroken(at, &in.Unanswered, promise)
	}
	if points := cs.pointsOf(r, p, w); points > 0 {
		cs.noteFailed(at, r, p, points)
	}
}

// pointsOf returns how many points are added to the provider's tally when a placement is given up. It
// returns 0 if the provider is not to blame, if it refused a requester to which it does not lend, and
// if it was silent, because a silent provider gets no new placements anyway.
func (cs *clusters) pointsOf(r *Reservation, p *Placement, w *Withdraw) int32 {
	switch {
	case w.Reason == ProviderLost:
		return 0
	case w.Reason == NodeLost:
		return failurePoints
	case !w.Refused && w.Reason == string(DueAcknowledgement):
		return failurePoints
	case !w.Refused, cs.byID[p.Provider].Lending.Refuses(r.Requester) != "":
		return 0
	case p.AcknowledgedAt.IsZero():
		return refusalPoints
	default:
		return failurePoints
	}
}

func (cs *clusters) recordOf(p *Placement) *Record { return &cs.byID[p.Provider].Record }

func (r *Record) ageTo(now time.Time) {
	present := now.Unix() / week
	if weeks := min(present-r.Week, 63); weeks > 0 {
		r.Kept, r.Broken, r.Week = r.Kept>>weeks, r.Broken>>weeks, present
	}
}

func (r *Record) addKept(at time.Time) {
	r.ageTo(at)
	r.Kept += promise
}

// addBroken increments count, and adds a broken promise, given in thousandths, to Broken.
func (r *Record) addBroken(at time.Time, count *int64, thousandths int64) {
	r.ageTo(at)
	*count++
	r.Broken += thousandths
}
