package decision

import "strconv"

// fullScore is the score of 100 points. Scores are integers so that totals and their upper bounds
// are exact. Even ninety such scores, each with a weight of 100, add up to less than the largest
// int64.
const fullScore int64 = 1_000_000_000_000_000

// criterion gives every candidate a score from 0 to fullScore. To add one, implement it in a file
// of its own and append it to criteria.
type criterion interface {
	name() string
	// prepareScores prepares the criterion for one decision. It returns false if there is no data
	// to judge by. Then the criterion does not count, and the other criteria decide alone.
	prepareScores(c *contest) bool
	// score returns the score of the candidate in row i. It may be called for any row, also for a
	// candidate that checkCandidate would reject and for a row without a candidate.
	score(c *contest, i int) int64
}

// fixed is a criterion whose scores do not depend on the request. Decide scans the scores of the
// fixed criterion with the highest weight, and examines only the rows that may still win.
type fixed interface {
	scoreColumn(m *Market) []int64
}

type noter interface {
	explainScore(c *contest, i int) string
}

// criteria lists every criterion in the order in which they are displayed.
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
