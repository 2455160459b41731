package decision

import "math"

// Decide returns the cluster that serves the request best, and false when none
// can. It allocates nothing.
func Decide(m *Market, r *Request) (string, bool) {
	c := m.begin(r)
	defer c.end()
	winner := c.best()
	if winner == nobody {
		return "", false
	}
	return m.ids[winner], true
}

// Check returns why the named cluster cannot serve the request, and true when it
// can. It serves wishes for one provider, and the re-check of a choice made before.
func Check(m *Market, r *Request, id string) (Rejection, bool) {
	c := m.begin(r)
	defer c.end()
	i, ok := m.row[id]
	if !ok {
		return Rejection{Reason: UnknownCluster}, false
	}
	reason, which := c.explained(int(i))
	return c.rejection(int(i), reason, which), reason == ""
}

const nobody = -1

// best scans the scores of the heaviest fixed criterion. With full marks in all
// others such a score bounds a candidate's total, so that most are passed over
// with one comparison: those below floor cannot reach the best total so far. The
// checks come last, when a candidate would win.
func (c *contest) best() int {
	lead, weight := c.lead()
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
		if reason, _ := c.check(i); reason != "" {
			continue
		}
		winner, best = i, total
		if weight > 0 {
			floor = ceilDiv(best-rest, weight)
		}
	}
	return winner
}

// lead is the column of the heaviest criterion whose scores are known beforehand;
// with none among the judges, any column at weight zero bounds nothing.
func (c *contest) lead() ([]int64, int64) {
	column, weight := c.market.availability, int64(0)
	for _, j := range c.judges {
		if f, ok := j.criterion.(fixed); ok && j.weight > weight {
			column, weight = f.column(c.market), j.weight
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
