package decision

import (
	"math"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Decide returns the cluster that serves the request best, and false if none can. It allocates
// nothing.
func Decide(m *Market, r *Request) (string, bool) {
	c := m.beginContest(r)
	defer c.releaseRequest()
	winner := c.findBest()
	if winner == nobody {
		return "", false
	}
	return m.ids[winner], true
}

// Check returns why the named cluster cannot serve the request, and true if it can. It serves
// requests for one provider, and repeats the check of an earlier choice.
func Check(m *Market, r *Request, id string) (Rejection, bool) {
	c := m.beginContest(r)
	defer c.releaseRequest()
	i, ok := m.row[id]
	if !ok {
		return Rejection{Reason: UnknownCluster}, false
	}
	reason, which := c.checkExplained(int(i))
	return c.describeRejection(int(i), reason, which), reason == ""
}

// CheckGrowth returns why the named cluster cannot raise the amounts that it gives to those of
// the request, and true if it can. rest is the part that it does not give yet; its sum is
// checked by the caller. Only requirements that depend on the amounts count: the highest price,
// and room on the selected nodes.
func CheckGrowth(m *Market, r *Request, rest quantity.Amounts, id string) (Rejection, bool) {
	c := m.beginContest(r)
	defer c.releaseRequest()
	row, ok := m.row[id]
	if !ok {
		return Rejection{Reason: UnknownCluster}, false
	}
	i, which := int(row), 0
	reason := c.checkPrice(i)
	if reason == "" && (len(r.PodShapes) > 0 || c.checksNodes(i)) {
		c.needs = m.resolveNeeds(c.needs[:0], rest)
		if k, fits := c.checkNodes(i); !fits {
			reason, which = NodesDoNotMatch, k
		}
	}
	return c.describeRejection(i, reason, which), reason == ""
}

const nobody = -1

// findBest scans the scores of the heaviest fixed criterion. Such a score plus full marks in
// all other criteria is an upper bound of a candidate's total. So one comparison skips most
// candidates: those below floor cannot reach the best total so far. A candidate is checked only
// if it would win.
func (c *contest) findBest() int {
	lead, weight := c.leadColumn()
	rest := (c.weight - weight) * fullScore
	rank := c.market.rank
	winner, best, floor := nobody, int64(-1), int64(math.MinInt64)
	for i, s := range lead {
		if s < floor || s*weight+rest == best && rank[i] > rank[winner] || c.tooSmall(i) {
			continue
		}
		total := c.totalAbove(best, i)
		if total < best || total == best && rank[i] > rank[winner] {
			continue
		}
		if reason, _ := c.checkCandidate(i); reason != "" {
			continue
		}
		winner, best = i, total
		if weight > 0 {
			floor = ceilDiv(best-rest, weight)
		}
	}
	return winner
}

// leadColumn returns the scores of the heaviest criterion that does not depend on the
// request, and its weight. If no judge is such a criterion it returns any column with
// weight 0, which bounds nothing.
func (c *contest) leadColumn() ([]int64, int64) {
	column, weight := c.market.availability, int64(0)
	for _, j := range c.judges {
		if f, ok := j.criterion.(fixed); ok && j.weight > weight {
			column, weight = f.scoreColumn(c.market), j.weight
		}
	}
	return column, weight
}

func ceilDiv(a, b int64) int64 {
	if a > 0 {
		return (a-1)/b + 1
	}
	return a / b
}
