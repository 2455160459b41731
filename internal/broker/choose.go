package broker

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// shown is how many candidates a status or an answer explains.
const shown = 10

type choice struct {
	winner      string
	explanation ledger.Explanation
}

// choose picks a provider. What the winner last said of itself is written down
// before it is held to it; if it then no longer serves, the choice is made again.
func (t *term) choose(q *Request, tried []string) (*choice, error) {
	if !t.b.configured {
		return nil, errUnconfigured()
	}
	woken := false
	for {
		request := t.sought(q, tried)
		winner, ok := t.pick(request, q.Target)
		refresh := func() (bool, error) { return t.refresh(winner) }
		if !ok {
			refresh = t.refreshAll
		}
		refreshed, err := refresh()
		switch {
		case err != nil:
			return nil, err
		case refreshed:
			// Who waits comes before who asks now.
			t.wake()
			continue
		case !ok:
			return nil, t.whyNot(request, q)
		case !woken && t.overtakes(q, winner):
			// What became free a moment ago was not offered to who waits yet.
			woken = true
			t.wake()
		default:
			return &choice{winner, t.explain(request, q.Target)}, nil
		}
	}
}

// refreshAll comes before a refusal: one of the offers may have just enough room.
func (t *term) refreshAll() (bool, error) {
	found := false
	for _, id := range slices.Sorted(maps.Keys(t.presence)) {
		refreshed, err := t.refresh(id)
		if err != nil {
			return false, err
		}
		found = found || refreshed
	}
	return found, nil
}

func (t *term) pick(request *decision.Request, target string) (string, bool) {
	if target == "" {
		return decision.Decide(t.market, request)
	}
	_, ok := decision.Check(t.market, request, target)
	return target, ok
}

// refresh records an offer that was too close to the recorded one to be worth it
// until now, and says whether there was one.
func (t *term) refresh(clusterID string) (bool, error) {
	p := t.presenceOf(clusterID)
	if p.pending == nil {
		return false, nil
	}
	offer := p.pending
	p.pending = nil
	err := t.recordOffer(offer)
	if errors.Is(err, ledger.ErrMalformed) || fault.ReasonOf(err) == fault.TooLarge {
		// It was refused for good; what was recorded before still stands.
		return false, nil
	}
	return true, err
}

func (t *term) explain(request *decision.Request, target string) ledger.Explanation {
	verdicts, winner, rejected := t.verdicts(request, target, shown)
	candidates := make([]ledger.Candidate, len(verdicts))
	for i, v := range verdicts {
		candidates[i] = candidateOf(v, winner)
	}
	text := ledger.Explain(candidates, rejected)
	t.explained = explained{text, shownCandidates(candidates)}
	return text
}

// explained is an explanation and what it says: whoever asks for one soon tells it.
type explained struct {
	text       ledger.Explanation
	candidates []v1.Candidate
}

// verdicts are those over the target, or over the best and so many candidates, with who
// wins and how many were rejected for which reason.
func (t *term) verdicts(request *decision.Request, target string, most int) ([]decision.Verdict, string, map[string]int32) {
	rejected := map[string]int32{}
	if target != "" {
		verdict := decision.Judge(t.market, request, target)
		if verdict.Rejection != nil {
			rejected[string(verdict.Rejection.Reason)] = 1
		}
		return []decision.Verdict{verdict}, target, rejected
	}
	full := decision.ExplainTop(t.market, request, most)
	for reason, n := range full.Rejected {
		rejected[string(reason)] = int32(n)
	}
	return full.Verdicts, full.Winner, rejected
}

func candidateOf(v decision.Verdict, winner string) ledger.Candidate {
	c := ledger.Candidate{ClusterID: v.ID}
	if v.Bill.Currency != "" {
		c.PricePerHour, c.Currency = decision.Money(v.Bill.PerHour), v.Bill.Currency
	}
	if v.Rejection != nil {
		c.Reason, c.Message = string(v.Rejection.Reason), v.Rejection.Message()
		return c
	}
	c.Score = v.Total.String()
	c.Criteria = make(map[string]string, len(v.Scores))
	for _, s := range v.Scores {
		c.Criteria[s.Criterion] = s.Score.String()
		if s.Criterion == decision.Cost && s.Note != "" {
			c.Message = s.Criterion + ": " + s.Note
		}
	}
	if v.ID != winner {
		c.Reason = ledger.LowerScore
	}
	return c
}

// whyNot tells with all candidates; who passes it on shows of them what may be seen.
func (t *term) whyNot(request *decision.Request, q *Request) *fault.Error {
	explanation := t.explain(request, q.Target)
	e := fault.New(fault.NoCandidate, "%s", t.reasonsOf(q, explanation))
	e.Candidates, e.Rejected = t.candidatesOf(explanation), explanation.Rejected()
	return e
}

// reasonsOf says of each candidate that may be seen why it cannot hold a request, and
// of the others how many cannot. A Reservation in the broker's cluster shows all.
func (t *term) reasonsOf(q *Request, why ledger.Explanation) string {
	var v Visibility
	if q.Object == nil {
		v = t.b.config.Visibility
	}
	text := "no cluster can hold " + describe(q.Amounts) + ": " + tell(v.of(t.candidatesOf(why), "", q.Target), why.Rejected())
	if percent := t.b.config.Headroom; percent > 0 {
		text += fmt.Sprintf("; %d %% of every cluster are kept back", percent)
	}
	return text
}

// candidatesOf are not to be changed: others have them too.
func (t *term) candidatesOf(e ledger.Explanation) []v1.Candidate {
	if e == t.explained.text {
		return t.explained.candidates
	}
	return shownCandidates(e.Candidates())
}

func shownCandidates(candidates []ledger.Candidate) []v1.Candidate {
	out := make([]v1.Candidate, len(candidates))
	for i, c := range candidates {
		out[i] = shownCandidate(c)
	}
	return out
}

func shownCandidate(c ledger.Candidate) v1.Candidate {
	return v1.Candidate{
		ClusterID: c.ClusterID, Score: c.Score, Criteria: c.Criteria, Reason: c.Reason, Message: c.Message,
		PricePerHour: c.PricePerHour, Currency: c.Currency,
	}
}

// move grants a reservation its next placement on a provider that was not tried,
// or lets it wait or ends it when there is none.
func (t *term) move(r *ledger.Reservation) error {
	if r.Unclaimed {
		return t.release(r, "its provider gave it up ("+r.Current().Withdrawn+") and its requester did not ask for it")
	}
	q, tried := again(r)
	c, err := t.choose(q, tried)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate {
		return t.settleHomeless(r, why)
	}
	if err != nil {
		return err
	}
	if !t.settling().IsZero() && t.overtakes(q, c.winner) {
		return nil // its deadline is when that is over
	}
	t.b.opts.Log.Info("reservation moved", "reservation", r.Name, "from", r.Current().Provider, "to", c.winner, "reason", r.Current().Withdrawn)
	return t.record(ledger.Event{Change: &ledger.Move{Name: r.Name, Provider: c.winner, Explanation: c.explanation}})
}

// settleHomeless is for a reservation for which there is no next placement: it waits, or
// ends.
func (t *term) settleHomeless(r *ledger.Reservation, why *fault.Error) error {
	if !t.settling().IsZero() {
		return nil // its deadline is when that is over
	}
	if r.Queue {
		return t.requeue(r, why)
	}
	last := r.Current()
	end := &ledger.End{Name: r.Name, Reason: ledger.EndFailed, Explanation: explanationOf(why)}
	end.Message = last.Provider + " gave it up (" + last.Withdrawn + ") and " + why.Detail
	if last.Withdrawn == ledger.Preempted {
		end.Reason = ledger.EndPreempted
		end.Message = "it made room on " + last.Provider + " for a request of a higher priority, and " + why.Detail
	}
	if last.Withdrawn == ledger.Recalled {
		end.Message = last.Provider + " has called it back, and " + why.Detail
	}
	return t.record(ledger.Event{Change: end})
}

// giveUp withdraws a placement and finds the next, where none stands beside it.
func (t *term) giveUp(r *ledger.Reservation, p *ledger.Placement, reason string) error {
	err := t.record(ledger.Event{Change: &ledger.Withdraw{
		PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}, Reason: reason,
	}})
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerWithdrawn)
	if !t.homeless(r) {
		return nil // the one beside it stands on
	}
	return t.move(r)
}
