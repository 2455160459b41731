package decision

import "strconv"

// fullScore is 100 points. Scores are integers so that totals and their upper
// bounds are exact; a hundred such scores at full weight still fit in an int64.
const fullScore int64 = 1_000_000_000_000_000

// A criterion judges candidates from 0 to fullScore. Adding one takes a file and a
// line in criteria.
type criterion interface {
	name() string
	// prepare looks at the market once for each decision. When it returns false
	// nothing is known to judge by: the criterion does not count, and the weights
	// of the others carry the decision alone.
	prepare(c *contest) bool
	// score may be called for rows that no check has passed yet, vacant ones too.
	score(c *contest, i int) int64
}

// fixed is a criterion whose scores no request changes. Decide scans the column
// of the heaviest one and looks closer only where it may still win.
type fixed interface {
	column(m *Market) []int64
}

// noter explains a score that does not speak for itself.
type noter interface {
	note(c *contest, i int) string
}

// criteria lists every criterion in the order in which they are shown.
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

// String writes the score with two decimals, as in ClusterAdvertisement's status.
func (s Score) String() string { return strconv.FormatFloat(float64(s), 'f', 2, 64) }

func scoreOf(score int64) Score { return Score(float64(score) / float64(fullScore) * 100) }
