package broker

import (
	"fmt"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/visibility"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// shown is how many candidates a status or an answer explains.
const shown = 10

// decider chooses providers, and explains its choices. It changes only its cache and the node
// shapes in the market.
type decider struct {
	s *session
	// last caches the last explanation in decoded form, because callers usually need it next.
	last explained
}

// choice is the result of choosing a provider for a request. Nothing is recorded yet.
type choice struct {
	request *decision.Request
	// winner is the chosen cluster, "" if none can serve the request. target is the only cluster
	// that the request accepts, "" for any.
	winner string
	target string
}

// chooseProvider picks a provider for a request.
func (d *decider) chooseProvider(q *requests.Request, tried ledger.Tried) choice {
	began := d.s.b.opts.Now()
	c := choice{request: d.newDecisionRequest(q, tried), target: q.Target}
	if winner, ok := d.pickBest(c.request, q.Target); ok {
		c.winner = winner
	}
	d.s.metering.TimeDecision(d.s.b.opts.Now().Sub(began))
	return c
}

// pickBest returns the best provider, and whether there is one. If the request has a target, it
// returns the target, and whether the target can serve the request.
func (d *decider) pickBest(request *decision.Request, target string) (string, bool) {
	if target == "" {
		return decision.Decide(d.s.market, request)
	}
	_, ok := decision.Check(d.s.market, request, target)
	return target, ok
}

// explainChoice returns the scores and rejections behind a choice.
func (d *decider) explainChoice(request *decision.Request, target string) explained {
	judged := d.listVerdicts(request, target, shown)
	candidates := make([]brokerv1alpha1.Candidate, len(judged.verdicts))
	for i, v := range judged.verdicts {
		candidates[i] = term.CandidateOf(v, judged.winner)
	}
	d.last = explained{ledger.Explain(candidates, judged.rejected), candidates, judged.dearest}
	return d.last
}

// explained is an explanation, encoded and decoded.
type explained struct {
	text       ledger.Explanation
	candidates []brokerv1alpha1.Candidate
	// dearest is the ID of the most expensive candidate that could have served the request, "" if
	// it is not known.
	dearest string
}

// lockPrice returns the price to lock for a request on the chosen provider, nil if the provider has
// no prices. why is the explanation of the choice.
func (d *decider) lockPrice(provider string, r *ledger.Request, why *explained) *ledger.Price {
	price := d.s.book.Cluster(provider).PriceFor(r)
	dearest := d.s.book.Cluster(why.dearest)
	if price == nil || dearest == nil || why.dearest == provider {
		return price
	}
	return price.ComparedWith(dearest.PriceFor(r), r)
}

// judged is the result of judging candidates. winner is the target if the request has one, otherwise
// the best candidate. dearest is Dearest of decision.Explanation; it is "" if there is a target.
// rejected counts the rejections by reason.
type judged struct {
	verdicts        []decision.Verdict
	winner, dearest string
	rejected        map[string]int32
}

// listVerdicts judges the target or, without a target, all candidates, and returns the first
// verdicts; the parameter most limits their number.
func (d *decider) listVerdicts(request *decision.Request, target string, most int) judged {
	rejected := map[string]int32{}
	if target != "" {
		verdict := decision.Judge(d.s.market, request, target)
		if verdict.Rejection != nil {
			rejected[string(verdict.Rejection.Reason)] = 1
			d.s.metering.CountRejected(verdict.Rejection.Reason, 1)
		}
		return judged{[]decision.Verdict{verdict}, target, "", rejected}
	}
	full := decision.ExplainTop(d.s.market, request, most)
	for reason, n := range full.Rejected {
		rejected[string(reason)] = int32(n)
		d.s.metering.CountRejected(reason, n)
	}
	return judged{full.Verdicts, full.Winner, full.Dearest, rejected}
}

// explainRefusal returns the refusal of a request that no cluster can serve, with all candidates.
// The caller removes those that the requester may not see.
func (d *decider) explainRefusal(request *decision.Request, q *requests.Request) *fault.Error {
	explanation := d.explainChoice(request, q.Target).text
	e := fault.New(fault.NoCandidate, "%s", d.explainRejections(q, explanation))
	e.Candidates, e.Rejected = d.decodeCandidates(explanation), explanation.Rejected()
	return e
}

// explainRejections returns a text that says why each candidate that the requester may see cannot
// serve the request. It shows all candidates to the author of a Reservation in the broker cluster.
func (d *decider) explainRejections(q *requests.Request, why ledger.Explanation) string {
	var v visibility.Visibility
	if q.Object == nil {
		v = d.s.config().Visibility
	}
	text := "no cluster can hold " + q.Amounts.Describe() + ": "
	if v.ShowsAll() {
		for _, u := range d.s.market.Unadvertised(q.Demands().Constraints, q.Requester) {
			if !u.Excludes {
				text += u.Text + "; "
			}
		}
	}
	text += visibility.Explain(v.VisibleTo(d.decodeCandidates(why), "", q.Target), why.Rejected())
	if percent := d.s.config().Headroom; percent > 0 {
		text += fmt.Sprintf("; %d %% of every cluster is kept free", percent)
	}
	return text
}

// decodeCandidates returns the candidates of an explanation. Callers must not change them, because
// they may come from the cache.
func (d *decider) decodeCandidates(e ledger.Explanation) []brokerv1alpha1.Candidate {
	if e == d.last.text {
		return d.last.candidates
	}
	return e.Candidates()
}
