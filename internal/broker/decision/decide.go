package decision

import (
	"math"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Decide returns the cluster that serves the request best, and false if none can. Clusters to avoid
// are the last resort. Decide allocates nothing.
func Decide(m *Market, r *Request) (string, bool) {
	c, winner := m.beginChoice(r)
	defer c.releaseRequest()
	if winner == nobody {
		return "", false
	}
	return m.ids[winner], true
}

// beginChoice begins a contest and returns the row of the best candidate, or the constant nobody. It
// turns to candidates to avoid only if no other can provide.
func (m *Market) beginChoice(r *Request) (c *contest, winner int) {
	c = m.beginContest(r, false)
	if winner = c.findBest(); winner == nobody && c.spared {
		c.releaseRequest()
		c = m.beginContest(r, true)
		winner = c.findBest()
	}
	return c, winner
}

// Check returns why the named cluster cannot serve the request, and true if it can. It is used for
// requests that name their provider, and to check an earlier choice again.
func Check(m *Market, r *Request, id string) (Rejection, bool) {
	c := m.beginContest(r, true)
	defer c.releaseRequest()
	i, ok := m.row[id]
	if !ok {
		return Rejection{Reason: UnknownCluster}, false
	}
	reason, which := c.checkExplained(int(i))
	return c.describeRejection(int(i), reason, which), reason == ""
}

// CheckGrowth returns why the named cluster, which provides a reservation already, cannot raise
// the reservation's amounts to those of the request, and true if it can. rest is what the request
// adds to the present amounts. CheckGrowth only tests what depends on the amounts: the highest
// price, and the room on the selected nodes. The caller checks that the cluster has enough free
// capacity in total.
func CheckGrowth(m *Market, r *Request, rest quantity.Amounts, id string) (Rejection, bool) {
	c := m.beginContest(r, true)
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

// findBest returns the row of the best candidate, or the constant nobody if no candidate can
// provide. It scans the scores of the fixed criterion with the highest weight. A candidate whose
// score there is below floor cannot reach the best total found so far, even with full scores in all
// other criteria. So most candidates are skipped after one comparison. Only a candidate that would
// win is checked.
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

// leadColumn returns the scores of the fixed criterion with the highest weight, and that weight. If
// no fixed criterion counts, it returns the availability scores with weight 0; then findBest cannot
// skip any candidate by its bound.
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
