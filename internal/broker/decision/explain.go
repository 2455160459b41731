package decision

import (
	"cmp"
	"slices"
)

// Explanation is a decision with its reasons.
type Explanation struct {
	// Winner is empty if no candidate can provide.
	Winner string
	// Weights are the effective weights of the criteria, in percent of the total, in the order
	// of Criteria. A criterion without data has weight 0.
	Weights []Weight
	// Verdicts lists the candidates that can provide, best first, then the rejected ones by
	// name.
	Verdicts []Verdict
	// Considered counts all candidates, including those left out of Verdicts.
	Considered int
	// Rejected counts the rejected candidates by reason.
	Rejected map[Reason]int
}

// Weight is the share of one criterion in the totals.
type Weight struct {
	Criterion string
	Percent   float64
}

// Verdict is the judgement of one candidate.
type Verdict struct {
	ID string
	// Rank counts from 1; 0 for a rejected candidate, or one judged alone.
	Rank int
	// Total is the weighted mean of Scores. Totals that look equal in print may differ.
	Total  Score
	Scores []CriterionScore
	// Bill is the price of the request there. It is in the currency of the comparison if there
	// is a rate, else in the candidate's own.
	Bill Bill
	// Rejection is nil for a candidate that can provide.
	Rejection *Rejection
}

// CriterionScore is the score of one candidate under one criterion.
type CriterionScore struct {
	Criterion string
	Score     Score
	// Note explains a score that is not self-explanatory.
	Note string
}

// ExplainTop judges every candidate and returns the first n verdicts. Winner, weights and
// counts cover all candidates. The winner is the same as Decide's. Only the n verdicts are
// described, so a few cost little.
func ExplainTop(m *Market, r *Request, n int) Explanation {
	c := m.beginContest(r)
	defer c.releaseRequest()
	n = min(max(n, 0), m.Len())
	out := Explanation{Weights: c.describeWeights(), Considered: m.Len(), Rejected: map[Reason]int{}}
	best := shortlist{size: max(n, 1)}
	var rejected []int32
	for _, row := range m.byName {
		if reason, _ := c.checkExplained(int(row)); reason != "" {
			out.Rejected[reason]++
			if len(rejected) < n {
				rejected = append(rejected, row)
			}
			continue
		}
		best.addContender(contender{row, c.totalScore(int(row))})
	}
	ranked := best.bestSorted()
	if len(ranked) > 0 {
		out.Winner = m.ids[ranked[0].row]
	}
	out.Verdicts = make([]Verdict, 0, n)
	for k, won := range ranked[:min(n, len(ranked))] {
		v := c.verdictOn(int(won.row))
		v.Rank = k + 1
		out.Verdicts = append(out.Verdicts, v)
	}
	for _, row := range rejected[:min(n-len(out.Verdicts), len(rejected))] {
		out.Verdicts = append(out.Verdicts, c.verdictOn(int(row)))
	}
	return out
}

// Judge returns the verdict on one candidate, without its rank among the others.
func Judge(m *Market, r *Request, id string) Verdict {
	c := m.beginContest(r)
	defer c.releaseRequest()
	i, ok := m.row[id]
	if !ok {
		return Verdict{ID: id, Rejection: &Rejection{Reason: UnknownCluster}}
	}
	return c.verdictOn(int(i))
}

func (c *contest) verdictOn(i int) Verdict {
	m := c.market
	v := Verdict{ID: m.ids[i], Bill: c.billOf(i).inCurrency(c.commonCurrency(), m.rates)}
	if reason, which := c.checkCandidate(i); reason != "" {
		rejection := c.describeRejection(i, reason, which)
		v.Rejection = &rejection
		return v
	}
	v.Total, v.Scores = scoreOf(c.totalScore(i))/Score(c.weight), c.describeScores(i)
	return v
}

// shortlist keeps the best size contenders. Contenders must be added in the order of their
// names; among equals the first stay.
type shortlist struct {
	size int
	list []contender
	// full: size contenders with at least the total floor are listed.
	full  bool
	floor int64
}

type contender struct {
	row   int32
	total int64
}

func (s *shortlist) addContender(c contender) {
	if s.full && c.total <= s.floor {
		return
	}
	s.list = append(s.list, c)
	if len(s.list) == 2*s.size {
		s.list = s.bestSorted()
		s.full, s.floor = true, s.list[s.size-1].total
	}
}

func (s *shortlist) bestSorted() []contender {
	slices.SortStableFunc(s.list, func(a, b contender) int { return cmp.Compare(b.total, a.total) })
	return s.list[:min(s.size, len(s.list))]
}

func (c *contest) describeWeights() []Weight {
	out := make([]Weight, len(criteria))
	for k, criterion := range criteria {
		out[k].Criterion = criterion.name()
		for _, j := range c.judges {
			if j.name() == criterion.name() {
				out[k].Percent = float64(j.weight) / float64(c.weight) * 100
			}
		}
	}
	return out
}

func (c *contest) describeScores(i int) []CriterionScore {
	out := make([]CriterionScore, len(c.judges))
	for k, j := range c.judges {
		out[k] = CriterionScore{Criterion: j.name(), Score: scoreOf(j.score(c, i))}
		if n, ok := j.criterion.(noter); ok {
			out[k].Note = n.explainScore(c, i)
		}
	}
	return out
}
