package broker

import (
	"fmt"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// shown is how many candidates a status or an answer explains.
const shown = 10

// decider chooses providers, and explains its choices. It reads the market and changes
// nothing but its cache.
type decider struct {
	s *session
	// last caches the last explanation, decoded: the caller usually needs it right after.
	last explained
}

// choice is a provider for a request, before anything is recorded.
type choice struct {
	request *decision.Request
	// winner is "" if no cluster can hold the request.
	winner string
	target string
}

// chooseProvider picks a provider for a request. It excludes the providers in tried.
func (d *decider) chooseProvider(q *Request, tried []string) choice {
	c := choice{request: d.newDecisionRequest(q, tried), target: q.Target}
	if winner, ok := d.pickBest(c.request, q.Target); ok {
		c.winner = winner
	}
	return c
}

// pickBest returns the best provider, or the target if there is one, and whether it can serve.
func (d *decider) pickBest(request *decision.Request, target string) (string, bool) {
	if target == "" {
		return decision.Decide(d.s.market, request)
	}
	_, ok := decision.Check(d.s.market, request, target)
	return target, ok
}

// explainChoice returns the scores and rejections behind a choice.
func (d *decider) explainChoice(request *decision.Request, target string) ledger.Explanation {
	verdicts, winner, rejected := d.listVerdicts(request, target, shown)
	candidates := make([]brokerv1alpha1.Candidate, len(verdicts))
	for i, v := range verdicts {
		candidates[i] = candidateOf(v, winner)
	}
	text := ledger.Explain(candidates, rejected)
	d.last = explained{text, candidates}
	return text
}

// explained is an explanation with its candidates.
type explained struct {
	text       ledger.Explanation
	candidates []brokerv1alpha1.Candidate
}

// listVerdicts returns the verdict on the target, or on up to most of the best candidates. It also
// returns the winner and the number of rejections by reason.
func (d *decider) listVerdicts(request *decision.Request, target string, most int) ([]decision.Verdict, string, map[string]int32) {
	rejected := map[string]int32{}
	if target != "" {
		verdict := decision.Judge(d.s.market, request, target)
		if verdict.Rejection != nil {
			rejected[string(verdict.Rejection.Reason)] = 1
		}
		return []decision.Verdict{verdict}, target, rejected
	}
	full := decision.ExplainTop(d.s.market, request, most)
	for reason, n := range full.Rejected {
		rejected[string(reason)] = int32(n)
	}
	return full.Verdicts, full.Winner, rejected
}

func candidateOf(v decision.Verdict, winner string) brokerv1alpha1.Candidate {
	c := brokerv1alpha1.Candidate{ClusterID: v.ID}
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

// explainRefusal explains a refusal with all candidates. The caller removes those that the requester
// may not see.
func (d *decider) explainRefusal(request *decision.Request, q *Request) *fault.Error {
	explanation := d.explainChoice(request, q.Target)
	e := fault.New(fault.NoCandidate, "%s", d.explainRejections(q, explanation))
	e.Candidates, e.Rejected = d.decodeCandidates(explanation), explanation.Rejected()
	return e
}

// explainRejections explains why each visible candidate cannot hold a request, and counts the others. A
// Reservation in the broker cluster shows all candidates.
func (d *decider) explainRejections(q *Request, why ledger.Explanation) string {
	var v Visibility
	if q.Object == nil {
		v = d.s.config().Visibility
	}
	text := "no cluster can hold " + describeAmounts(q.Amounts) + ": " + explainCandidates(v.visibleTo(d.decodeCandidates(why), "", q.Target), why.Rejected())
	if percent := d.s.config().Headroom; percent > 0 {
		text += fmt.Sprintf("; %d %% of every cluster is kept free", percent)
	}
	return text
}

// decodeCandidates decodes an explanation. The result is shared and must not be changed.
func (d *decider) decodeCandidates(e ledger.Explanation) []brokerv1alpha1.Candidate {
	if e == d.last.text {
		return d.last.candidates
	}
	return e.Candidates()
}
