package broker

import (
	"errors"
	"maps"
	"slices"
	"strings"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/ledger"
)

// shown is how many candidates a status or an answer explains.
const shown = 10

type choice struct {
	winner      string
	explanation *ledger.Explanation
}

// choose picks a provider. What the winner last said of itself is written down
// before it is held to it; if it then no longer serves, the choice is made again.
func (t *term) choose(q *Request, tried []string) (*choice, error) {
	if !t.b.configured {
		return nil, errUnconfigured()
	}
	request := &decision.Request{
		Requester: q.Requester, Amounts: q.Amounts, Exclude: tried, Weights: t.b.config.Weights,
	}
	for {
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
			continue
		case !ok:
			return nil, t.whyNot(request, q.Target)
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
	err := t.record(ledger.Event{Offer: offer})
	if errors.Is(err, ledger.ErrMalformed) {
		// It was refused for good; what was recorded before still stands.
		return false, nil
	}
	return true, err
}

func (t *term) explain(request *decision.Request, target string) *ledger.Explanation {
	if target != "" {
		verdict := decision.Judge(t.market, request, target)
		return &ledger.Explanation{Candidates: []ledger.Candidate{candidateOf(verdict, target)}}
	}
	full := decision.ExplainTop(t.market, request, shown)
	out := &ledger.Explanation{Rejected: map[string]int32{}}
	for reason, n := range full.Rejected {
		out.Rejected[string(reason)] = int32(n)
	}
	for _, v := range full.Verdicts {
		out.Candidates = append(out.Candidates, candidateOf(v, full.Winner))
	}
	return out
}

func candidateOf(v decision.Verdict, winner string) ledger.Candidate {
	c := ledger.Candidate{ClusterID: v.ID}
	if v.Rejection != nil {
		c.Reason, c.Message = string(v.Rejection.Reason), v.Rejection.Message()
		return c
	}
	c.Score = v.Total.String()
	c.Criteria = map[string]string{}
	for _, s := range v.Scores {
		c.Criteria[s.Criterion] = s.Score.String()
	}
	if v.ID != winner {
		c.Reason, c.Message = "LowerScore", "another cluster scores higher"
	}
	return c
}

func (t *term) whyNot(request *decision.Request, target string) error {
	e := fault.New(fault.NoCandidate, "no cluster can hold %s", describe(request.Amounts))
	if target != "" {
		rejection, _ := decision.Check(t.market, request, target)
		e.Detail += ": " + target + ": " + rejection.Message()
	}
	explanation := t.explain(request, target)
	e.Candidates, e.Rejected = candidatesOf(explanation), explanation.Rejected
	if target == "" {
		var why []string
		for _, c := range e.Candidates {
			why = append(why, c.ClusterID+": "+c.Message)
		}
		if len(why) > 0 {
			e.Detail += ": " + strings.Join(why, "; ")
		} else {
			e.Detail += ": no cluster has advertised anything yet"
		}
	}
	return e
}

func candidatesOf(e *ledger.Explanation) []v1.Candidate {
	out := make([]v1.Candidate, len(e.Candidates))
	for i, c := range e.Candidates {
		out[i] = v1.Candidate{ClusterID: c.ClusterID, Score: c.Score, Criteria: c.Criteria, Reason: c.Reason, Message: c.Message}
	}
	return out
}

// move grants a reservation its next placement on a provider that was not tried,
// or ends it when there is none.
func (t *term) move(r *ledger.Reservation) error {
	if r.Unclaimed {
		return t.release(r, "its provider gave it up ("+r.Current().Withdrawn+") and its requester did not ask for it")
	}
	var tried []string
	for i := range r.Placements {
		tried = append(tried, r.Placements[i].Provider)
	}
	c, err := t.choose(askedFor(r), tried)
	if fault.ReasonOf(err) == fault.NoCandidate && !t.settling().IsZero() {
		return nil // its deadline is when that is over
	}
	if fault.ReasonOf(err) == fault.NoCandidate {
		last := r.Current()
		message := last.Provider + " gave it up (" + last.Withdrawn + ") and " + err.Error()
		return t.record(ledger.Event{End: &ledger.End{Name: r.Name, Reason: ledger.EndFailed, Message: message}})
	}
	if err != nil {
		return err
	}
	t.b.opts.Log.Info("reservation moved", "reservation", r.Name, "from", r.Current().Provider, "to", c.winner, "reason", r.Current().Withdrawn)
	return t.record(ledger.Event{Move: &ledger.Move{Name: r.Name, Provider: c.winner, Explanation: c.explanation}})
}

// giveUp withdraws a placement and finds the next.
func (t *term) giveUp(r *ledger.Reservation, p *ledger.Placement, reason string) error {
	err := t.record(ledger.Event{Withdraw: &ledger.Withdraw{
		PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}, Reason: reason,
	}})
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerWithdrawn)
	return t.move(r)
}
