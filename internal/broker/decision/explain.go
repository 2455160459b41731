package decision

import (
	"cmp"
	"slices"
)

// Explanation describes a decision: the winner, and how each candidate was judged.
type Explanation struct {
	// Winner is the ID of the best candidate; empty if no candidate can provide.
	Winner string
	// Dearest is the ID of the most expensive candidate among those that can provide and have prices
	// in the winner's currency. Among equal prices, it is the ID that sorts first. It is empty if the
	// winner has no price.
	Dearest string
	// Verdicts lists the candidates that can provide, best first, then the rejected ones by cluster
	// ID.
	Verdicts []Verdict
	// Rejected counts the rejected candidates by reason.
	Rejected map[Reason]int
}

// Verdict is the judgement of one candidate.
type Verdict struct {
	ID string
	// Total is the weighted mean of Scores. Totals that are equal when formatted with two decimals
	// may differ.
	Total  Score
	Scores []CriterionScore
	// Bill is the price of the request on this candidate. It is converted to the currency in which
	// costs are compared if there is a rate; otherwise it is in the candidate's currency.
	Bill Bill
	// Rejection says why the candidate cannot provide; nil if it can.
	Rejection *Rejection
}

// CriterionScore is the score of one candidate under one criterion.
type CriterionScore struct {
	Criterion string
	Score     Score
	// Note says what the score alone does not show, such as a missing measurement. It may be empty.
	Note string
}

// ExplainTop judges every candidate and returns the first n verdicts. Winner and counts cover all
// candidates; the winner is the one that Decide returns. Only the n verdicts are
// described in full, so a small n costs little.
func ExplainTop(m *Market, r *Request, n int) Explanation {
	c, _ := m.beginChoice(r)
	defer c.releaseRequest()
	n = min(max(n, 0), m.Len())
	out := Explanation{Rejected: map[Reason]int{}}
	best, highest := shortlist{size: max(n, 1)}, make([]expensive, len(m.currencies))
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
		if in := &highest[m.currency[row]]; !in.known {
			*in = expensive{row, c.costOf(int(row)), true}
		} else if cost := c.costOf(int(row)); cost > in.cost {
			in.row, in.cost = row, cost
		}
	}
	ranked := best.bestSorted()
	if len(ranked) > 0 {
		out.Winner = m.ids[ranked[0].row]
		if k := m.currency[ranked[0].row]; k != noCurrency {
			out.Dearest = m.ids[highest[k].row]
		}
	}
	out.Verdicts = make([]Verdict, 0, n)
	for _, won := range ranked[:min(n, len(ranked))] {
		out.Verdicts = append(out.Verdicts, c.verdictOn(int(won.row)))
	}
	for _, row := range rejected[:min(n-len(out.Verdicts), len(rejected))] {
		out.Verdicts = append(out.Verdicts, c.verdictOn(int(row)))
	}
	return out
}

// Judge returns the verdict on one candidate.
func Judge(m *Market, r *Request, id string) Verdict {
	c := m.beginContest(r, true)
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

// shortlist keeps the size contenders with the highest totals. Contenders must be added in the
// order of their cluster IDs, because among equal totals the earlier one is kept.
type shortlist struct {
	size int
	list []contender
	// full is true once the list has contained size contenders with a total of at least floor. Another
	// contender then needs a higher total.
	full  bool
	floor int64
}

type contender struct {
	row   int32
	total int64
}

// expensive is the most expensive candidate found so far in one currency. known is false before the
// first one is found.
type expensive struct {
	row   int32
	cost  float64
	known bool
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
