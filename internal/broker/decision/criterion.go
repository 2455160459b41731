package decision

import "strconv"

// fullScore is 100 points. Scores are integers so that totals and their upper
// bounds are exact; a hundred such scores at full weight still fit in an int64.
const fullScore int64 = 1_000_000_000_000_000

// criterion judges candidates from 0 to fullScore. A new one needs a file and an entry in
// criteria.
type criterion interface {
	name() string
	// prepareScores examines the market once for each decision. It returns false if there is no
	// data to judge by. The criterion then does not count, and the other weights decide alone.
	prepareScores(c *contest) bool
	// score may be called for rows that have not passed checkCandidate, including vacant ones.
	score(c *contest, i int) int64
}

// fixed is a criterion whose scores do not depend on the request. Decide scans the column of
// the heaviest one and examines a row only if it may still win.
type fixed interface {
	scoreColumn(m *Market) []int64
}

// noter explains a score that is not self-explanatory.
type noter interface {
	explainScore(c *contest, i int) string
}

// criteria lists every criterion in display order.
var criteria = []criterion{availability{}, cost{}, latency{}, reliability{}}

// Criteria returns the names of all criteria.
func Criteria() []string {
	names := make([]string, len(criteria))
	for i, c := range criteria {
		names[i] = c.name()
	}
	return names
}

// Score is a number of points from 0 to 100.
type Score float64

// String formats the score with two decimals, as in ClusterAdvertisement's status.
func (s Score) String() string { return strconv.FormatFloat(float64(s), 'f', 2, 64) }

func scoreOf(score int64) Score { return Score(float64(score) / float64(fullScore) * 100) }
