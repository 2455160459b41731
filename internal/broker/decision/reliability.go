package decision

// reliability judges by the share of its promises that a provider has kept. A candidate without a
// record gets 50 points. If no candidate has a record, the criterion does not count.
type reliability struct{}

func (reliability) name() string                  { return Reliability }
func (reliability) prepareScores(c *contest) bool { return c.market.rated > 0 }
func (reliability) score(c *contest, i int) int64 { return c.market.reliability[i] }
func (reliability) scoreColumn(m *Market) []int64 { return m.reliability }

func (reliability) explainScore(c *contest, i int) string {
	if c.market.marks[i]&rated != 0 {
		return ""
	}
	return "no record yet"
}

func reliabilityScore(known *float64) int64 {
	switch {
	case known == nil || *known != *known:
		return fullScore / 2
	case *known <= 0:
		return 0
	case *known >= 1:
		return fullScore
	}
	return int64(*known * float64(fullScore))
}
