// Package decider chooses providers for requests and explains the choices.
package decider

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/visibility"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Session is what the decider needs of the broker's session.
type Session interface {
	term.Term
	Weights() decision.Weights
	// Headroom is the percentage of every cluster's lendable amounts that is kept free.
	Headroom() int
	// Visibility is what requesters are told.
	Visibility() visibility.Visibility
	// ReservationsOf returns the reservations in which a cluster takes part, sorted by name.
	ReservationsOf(clusterID string) []*ledger.Reservation
	// UpdateShapes updates the outdated node shapes in the market, and UpdateTaintedShapes those of
	// clusters with tainted nodes.
	UpdateShapes()
	UpdateTaintedShapes()
	// Until undo is called, SupposeElastic counts nodes that clusters can create as if they existed. undo
	// is nil if there are none or they count already.
	SupposeElastic() (undo func())
	// TimeDecision and CountRejected feed the metrics.
	TimeDecision(took time.Duration)
	CountRejected(reason decision.Reason, n int)
}

// shown is how many candidates a status or an answer explains.
const shown = 10

// Decider chooses providers, and explains its choices. It changes only its cache and the node
// shapes in the market.
type Decider struct {
	s      Session
	market *decision.Market
	// last caches the last explanation in decoded form, because callers usually need it next.
	last explained
}

// New returns a Decider that chooses in the market.
func New(s Session, market *decision.Market) *Decider { return &Decider{s: s, market: market} }

// ChooseProvider picks a provider for a request, "" if none can serve it. It also returns the request in
// the form that package decision reads.
func (d *Decider) ChooseProvider(q *requests.Request, tried ledger.Tried) (*decision.Request, string) {
	began := d.s.Now()
	request := d.NewDecisionRequest(q, tried)
	winner, ok := d.PickBest(request, q.Target)
	if !ok {
		winner = ""
	}
	d.s.TimeDecision(d.s.Now().Sub(began))
	return request, winner
}

// CanPlace reports whether a provider can serve a request, if necessary on nodes that it creates.
func (d *Decider) CanPlace(q *requests.Request, tried ledger.Tried) bool {
	_, ok := d.PickBest(d.NewDecisionRequest(q, tried), q.Target)
	if ok {
		return true
	}
	undo := d.s.SupposeElastic()
	if undo == nil {
		return false
	}
	defer undo()
	_, ok = d.PickBest(d.NewDecisionRequest(q, tried), q.Target)
	return ok
}

// JudgeCandidates returns the first verdicts about a request, at most that many, and counts the rejections by
// reason.
func (d *Decider) JudgeCandidates(q *requests.Request, most int) ([]decision.Verdict, map[string]int32) {
	judged := d.listVerdicts(d.NewDecisionRequest(q, ledger.Tried{}), q.Target, most)
	return judged.verdicts, judged.rejected
}

// PickBest returns the best provider, and whether there is one. If the request has a target, it
// returns the target, and whether the target can serve the request.
func (d *Decider) PickBest(request *decision.Request, target string) (string, bool) {
	if target == "" {
		return decision.Decide(d.market, request)
	}
	_, ok := decision.Check(d.market, request, target)
	return target, ok
}

// explainChoice returns the scores and rejections behind a choice.
func (d *Decider) explainChoice(request *decision.Request, target string) explained {
	judged := d.listVerdicts(request, target, shown)
	candidates := make([]brokerv1alpha1.Candidate, len(judged.verdicts))
	for i, v := range judged.verdicts {
		candidates[i] = term.CandidateOf(v, judged.winner)
	}
	d.last = explained{ledger.Explain(candidates, judged.rejected), candidates, judged.dearest}
	return d.last
}

// Explain returns the decision for a provider, with its reasons and the price to lock.
func (d *Decider) Explain(request *decision.Request, q *requests.Request, provider string) *term.Decision {
	why := d.explainChoice(request, q.Target)
	return &term.Decision{Provider: provider, Explanation: why.text, Price: d.lockPrice(provider, &q.Request, &why)}
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
func (d *Decider) lockPrice(provider string, r *ledger.Request, why *explained) *ledger.Price {
	price := d.s.Book().Cluster(provider).PriceFor(r)
	dearest := d.s.Book().Cluster(why.dearest)
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
func (d *Decider) listVerdicts(request *decision.Request, target string, most int) judged {
	rejected := map[string]int32{}
	if target != "" {
		verdict := decision.Judge(d.market, request, target)
		if verdict.Rejection != nil {
			rejected[string(verdict.Rejection.Reason)] = 1
			d.s.CountRejected(verdict.Rejection.Reason, 1)
		}
		return judged{[]decision.Verdict{verdict}, target, "", rejected}
	}
	full := decision.ExplainTop(d.market, request, most)
	for reason, n := range full.Rejected {
		rejected[string(reason)] = int32(n)
		d.s.CountRejected(reason, n)
	}
	return judged{full.Verdicts, full.Winner, full.Dearest, rejected}
}

// ExplainRefusal returns the refusal of a request that no cluster can serve, even on nodes that it creates,
// with all candidates. The caller removes those that the requester may not see.
func (d *Decider) ExplainRefusal(q *requests.Request, tried ledger.Tried) *fault.Error {
	if undo := d.s.SupposeElastic(); undo != nil {
		defer undo()
	}
	explanation := d.explainChoice(d.NewDecisionRequest(q, tried), q.Target).text
	e := fault.New(fault.NoCandidate, "%s", d.ExplainRejections(q, explanation))
	e.Candidates, e.Rejected = d.DecodeCandidates(explanation), explanation.Rejected()
	return e
}

// ExplainRejections returns a text that says why each candidate that the requester may see cannot
// serve the request. It shows all candidates to the author of a Reservation in the broker cluster.
func (d *Decider) ExplainRejections(q *requests.Request, why ledger.Explanation) string {
	var v visibility.Visibility
	if q.Object == nil {
		v = d.s.Visibility()
	}
	text := "no cluster can hold " + q.Amounts.Describe() + ": "
	if v.ShowsAll() {
		for _, u := range d.market.Unadvertised(q.Demands().Constraints, q.Requester) {
			if !u.Excludes {
				text += u.Text + "; "
			}
		}
	}
	text += visibility.Explain(v.VisibleTo(d.DecodeCandidates(why), "", q.Target), why.Rejected())
	if percent := d.s.Headroom(); percent > 0 {
		text += fmt.Sprintf("; %d %% of every cluster is kept free", percent)
	}
	return text
}

// DecodeCandidates returns the candidates of an explanation. Callers must not change them, because
// they may come from the cache.
func (d *Decider) DecodeCandidates(e ledger.Explanation) []brokerv1alpha1.Candidate {
	if e == d.last.text {
		return d.last.candidates
	}
	return e.Candidates()
}
