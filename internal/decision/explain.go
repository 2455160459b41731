package decision

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Explanation is a decision with its grounds.
type Explanation struct {
	// Winner is empty when no candidate can provide.
	Winner string
	// Weights are what the criteria counted for, in percent of the total, in the
	// order of Criteria. One that had nothing to judge by counts 0.
	Weights []Weight
	// Verdicts are those that can provide, best first, then the rejected by name.
	Verdicts []Verdict
	// Rejected counts the rejected candidates by reason.
	Rejected map[Reason]int
}

// Weight is the share of one criterion in the totals.
type Weight struct {
	Criterion string
	Percent   float64
}

// Verdict is how one candidate was judged.
type Verdict struct {
	ID string
	// Rank counts from 1; 0 for a rejected candidate.
	Rank int
	// Total is the weighed mean of Scores. Totals that print alike may differ.
	Total  Score
	Scores []CriterionScore
	// CostPerHour is in Currency for the whole request; Currency is empty when the
	// candidate names no price.
	CostPerHour Price
	Currency    string
	// Rejection is nil for a candidate that can provide.
	Rejection *Rejection
}

// CriterionScore is the score of one candidate under one criterion.
type CriterionScore struct {
	Criterion string
	Score     Score
	// Note is set where the score does not speak for itself.
	Note string
}

// Explain judges every candidate. Its winner is that of Decide.
func Explain(m *Market, r *Request) Explanation {
	c := m.begin(r)
	defer c.end()
	out := Explanation{
		Weights:  c.weights(),
		Verdicts: make([]Verdict, 0, m.Len()),
		Rejected: map[Reason]int{},
	}
	ranked := make([]contender, 0, m.Len())
	var rejected []Verdict
	for _, row := range m.byName {
		i := int(row)
		v := Verdict{ID: m.ids[i]}
		if k := m.currency[i]; k != noCurrency {
			v.CostPerHour, v.Currency = toPrice(c.costOf(i)), m.currencies[k].code
		}
		if reason, which := c.check(i); reason != "" {
			rejection := c.rejection(i, reason, which)
			v.Rejection = &rejection
			rejected = append(rejected, v)
			out.Rejected[reason]++
			continue
		}
		total := c.total(i)
		v.Total, v.Scores = points(total)/Score(c.weight), c.scores(i)
		ranked = append(ranked, contender{v, total})
	}
	// Stable: equal totals stay in the order of names.
	slices.SortStableFunc(ranked, func(a, b contender) int { return cmp.Compare(b.total, a.total) })
	for k := range ranked {
		ranked[k].verdict.Rank = k + 1
		out.Verdicts = append(out.Verdicts, ranked[k].verdict)
	}
	if len(ranked) > 0 {
		out.Winner = ranked[0].verdict.ID
	}
	out.Verdicts = append(out.Verdicts, rejected...)
	return out
}

type contender struct {
	verdict Verdict
	total   int64
}

// Top returns the first n verdicts, or all when there are fewer.
func (e Explanation) Top(n int) []Verdict {
	return e.Verdicts[:min(max(n, 0), len(e.Verdicts))]
}

// Summary tells the outcome in one line that is the same for the same outcome.
func (e Explanation) Summary() string {
	able := len(e.Verdicts)
	for _, n := range e.Rejected {
		able -= n
	}
	out := fmt.Sprintf("%d of %d clusters can provide", able, len(e.Verdicts))
	if len(e.Rejected) == 0 {
		return out
	}
	reasons := slices.SortedFunc(maps.Keys(e.Rejected), func(a, b Reason) int {
		return cmp.Or(cmp.Compare(e.Rejected[b], e.Rejected[a]), cmp.Compare(a, b))
	})
	counts := make([]string, len(reasons))
	for k, reason := range reasons {
		counts[k] = fmt.Sprintf("%d %s", e.Rejected[reason], reason)
	}
	return out + ": " + strings.Join(counts, ", ")
}

func (c *contest) weights() []Weight {
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

func (c *contest) scores(i int) []CriterionScore {
	out := make([]CriterionScore, len(c.judges))
	for k, j := range c.judges {
		out[k] = CriterionScore{Criterion: j.name(), Score: points(j.score(c, i))}
		if n, ok := j.criterion.(noter); ok {
			out[k].Note = n.note(c, i)
		}
	}
	return out
}
