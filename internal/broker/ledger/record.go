package ledger

import (
	"slices"
	"time"
)

// Record counts the outcomes of the placements on a provider. It follows from events that are
// journaled for other reasons.
//
// Its share is the mean of a Beta distribution over kept and broken promises (A. Jøsang, R.
// Ismail, The Beta Reputation System, 2002) that begins with one of each. At the end of every
// week, all counts are halved. Whole weeks and integers give the same result on every machine.
type Record struct {
	// Granted counts all placements, Ready those whose virtual node became Ready.
	Granted int64 `json:"granted,omitempty"`
	Ready   int64 `json:"ready,omitempty"`
	// Refused counts placements that the provider itself gave up, Unanswered those that it did
	// not acknowledge in time. NeverReady counts those whose node did not become Ready in time,
	// but only if another provider's node did for the same reservation: otherwise the consumer
	// may be at fault.
	Refused    int64 `json:"refused,omitempty"`
	Unanswered int64 `json:"unanswered,omitempty"`
	NeverReady int64 `json:"neverReady,omitempty"`
	// Dropped counts placements that had served and were given up because of the provider.
	Dropped int64 `json:"dropped,omitempty"`
	// ToReady is the sum of the times from grant to Ready.
	ToReady time.Duration `json:"toReady,omitempty"`
	// Kept and Broken are in thousandths of a promise, as of Week.
	Kept   int64 `json:"kept,omitempty"`
	Broken int64 `json:"broken,omitempty"`
	Week   int64 `json:"week,omitempty"`
}

const (
	// promise is the weight of one promise. A refusal counts half, because it comes at once.
	promise = 1000
	week    = int64(7 * 24 * time.Hour / time.Second)
)

// Share returns the share of promises kept, 0 to 1, and reports whether there is any record.
func (r Record) Share(now time.Time) (float64, bool) {
	r.ageTo(now)
	if r.Kept+r.Broken == 0 {
		return 0, false
	}
	return float64(r.Kept+promise) / float64(r.Kept+r.Broken+2*promise), true
}

// MeanToReady returns the mean time from grant to Ready, 0 if no node became Ready yet.
func (r Record) MeanToReady() time.Duration {
	if r.Ready == 0 {
		return 0
	}
	return r.ToReady / time.Duration(r.Ready)
}

// HandshakeRefused is the reason of a requester that gives a placement up because its provider
// sent an invalid handshake message, which no honest provider sends. Only the requester says
// so. So it counts like a node that did not become Ready: once another provider has served.
const HandshakeRefused = "HandshakeRefused"

// neverServed lists the reasons for giving up a placement because its node did not become Ready.
var neverServed = []string{string(DueReady), string(DueNetwork), HandshakeRefused}

// NodeReady reports whether the consumer's virtual node is Ready.
type NodeReady struct {
	PlacementRef
	Ready bool `json:"ready"`
}

func (e *NodeReady) checkAgainst(s *State) error { return s.checkStanding(e.PlacementRef) }

// applyTo notes the consumer's report about a placement's node. If the node is Ready for the
// first time, its provider has kept its promise. The providers of the immediately preceding
// placements that never became Ready have broken theirs.
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

// recordLeft counts a placement that is given up if its provider is responsible.
func (cs *clusters) recordLeft(at time.Time, r *Reservation, p *Placement, w *Withdraw) {
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

// pointsOf returns the points that giving a placement up adds to its provider's tally. It
// returns 0 for a silent provider, which gets no new placements anyway, and if the provider
// refused a cluster to which it does not lend.
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

// addBroken increments a count and adds thousandths of a broken promise.
func (r *Record) addBroken(at time.Time, count *int64, thousandths int64) {
	r.ageTo(at)
	*count++
	r.Broken += thousandths
}
