package ledger

import "time"

// Record is what became of what a provider was granted. It follows from events that are
// written down anyway.
//
// Its share is the mean of a Beta distribution over kept and broken promises (A. Jøsang,
// R. Ismail, The Beta Reputation System, 2002) that begins with one of each and forgets:
// at the end of every week all of it counts half. Weeks, and whole numbers, so that every
// machine finds the same.
type Record struct {
	// Granted counts placements, Ready those whose virtual node became Ready.
	Granted int64 `json:"granted,omitempty"`
	Ready   int64 `json:"ready,omitempty"`
	// Refused counts those that the provider gave up itself, Unanswered those that it did
	// not answer in time, NeverReady those whose node did not become Ready in time though
	// another provider's did for the same reservation: else it may be the consumer's fault.
	Refused    int64 `json:"refused,omitempty"`
	Unanswered int64 `json:"unanswered,omitempty"`
	NeverReady int64 `json:"neverReady,omitempty"`
	// Dropped counts those that were served and left because the provider was lost.
	Dropped int64 `json:"dropped,omitempty"`
	// ToReady is the sum of the times from grant to Ready.
	ToReady time.Duration `json:"toReady,omitempty"`
	// Kept and Broken are thousandths of promises, as of Week.
	Kept   int64 `json:"kept,omitempty"`
	Broken int64 `json:"broken,omitempty"`
	Week   int64 `json:"week,omitempty"`
}

const (
	// promise is what one counts. A refusal counts half: it comes at once, and is honest.
	promise = 1000
	week    = int64(7 * 24 * time.Hour / time.Second)
)

// Share of promises kept, 0 to 1, and whether anything is known.
func (r Record) Share(now time.Time) (float64, bool) {
	r.age(now)
	if r.Kept+r.Broken == 0 {
		return 0, false
	}
	return float64(r.Kept+promise) / float64(r.Kept+r.Broken+2*promise), true
}

// MeanToReady is the mean time from grant to Ready, 0 where nothing became Ready yet.
func (r Record) MeanToReady() time.Duration {
	if r.Ready == 0 {
		return 0
	}
	return r.ToReady / time.Duration(r.Ready)
}

func (r *Record) age(now time.Time) {
	present := now.Unix() / week
	if weeks := min(present-r.Week, 63); weeks > 0 {
		r.Kept, r.Broken, r.Week = r.Kept>>weeks, r.Broken>>weeks, present
	}
}

func (r *Record) keep(at time.Time) {
	r.age(at)
	r.Kept += promise
}

// fail counts what went wrong, which breaks a promise by so many thousandths.
func (r *Record) fail(at time.Time, count *int64, thousandths int64) {
	r.age(at)
	*count++
	r.Broken += thousandths
}

func (s *State) recordOf(p *Placement) *Record { return &s.clusters[p.Provider].Record }

// NodeReady says whether the consumer's virtual node is Ready.
type NodeReady struct {
	PlacementRef
	Ready bool `json:"ready"`
}

func (e *NodeReady) checkAgainst(s *State) error { return s.checkStanding(e.PlacementRef) }

// applyTo notes what the consumer says of a placement's node. With the first time
// that it is Ready its provider has delivered, and those tried in vain right before it
// have not.
func (e *NodeReady) applyTo(s *State, at time.Time) {
	r, p := s.placement(e.PlacementRef)
	p.Ready, r.Changed = e.Ready, s.position
	if !e.Ready || p.EverReady {
		return
	}
	p.EverReady = true
	s.served(at, r, p)
	record := s.recordOf(p)
	record.keep(at)
	record.Ready++
	record.ToReady += max(at.Sub(p.AssignedAt.Time()), 0)
	for n := p.Number - 1; n > r.Skipped; n-- {
		earlier := r.Placement(n)
		if earlier.EverReady {
			return
		}
		if earlier.Withdrawn == string(DueReady) {
			in := s.recordOf(earlier)
			in.fail(at, &in.NeverReady, promise)
			s.failed(at, r, earlier, failurePoints)
		}
	}
}

// recordLeft counts a placement that is given up, where its provider is to blame.
func (s *State) recordLeft(at time.Time, r *Reservation, p *Placement, w *Withdraw) {
	in := s.recordOf(p)
	switch {
	case w.Reason == ProviderLost, w.Refused && p.EverReady:
		in.fail(at, &in.Dropped, promise)
	case w.Refused:
		in.fail(at, &in.Refused, promise/2)
	case w.Reason == string(DueAcknowledgement):
		in.fail(at, &in.Unanswered, promise)
	}
	if points := s.pointsOf(r, p, w); points > 0 {
		s.failed(at, r, p, points)
	}
}

// pointsOf is what giving a placement up adds to its provider's tally. A silent provider
// takes nothing new anyway, and a provider may refuse clusters to which it does not lend.
func (s *State) pointsOf(r *Reservation, p *Placement, w *Withdraw) int32 {
	switch {
	case w.Reason == ProviderLost:
		return 0
	case !w.Refused && w.Reason == string(DueAcknowledgement):
		return failurePoints
	case !w.Refused, s.clusters[p.Provider].Lending.Refuses(r.Requester) != "":
		return 0
	case p.AcknowledgedAt.IsZero():
		return refusalPoints
	default:
		return failurePoints
	}
}
