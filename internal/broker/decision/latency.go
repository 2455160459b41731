package decision

import (
	"slices"
	"time"
)

// unacceptableLatency is the round-trip time at which the score reaches 0. Below it, the score
// rises linearly, to 100 points at a round-trip time of zero.
const unacceptableLatency = 200 * time.Millisecond

// latency judges the round-trip time from the requester to the candidate. A candidate without a
// measurement gets 50 points. If there is no measurement at all, the criterion does not count.
type latency struct{}

func (latency) name() string { return Latency }

func (latency) prepareScores(c *contest) bool {
	return slices.ContainsFunc(c.links, func(l linkTo) bool { return l.Measured })
}

func (latency) score(c *contest, i int) int64 {
	l := c.knownLink(i)
	switch {
	case !l.Measured:
		return fullScore / 2
	case l.Latency <= 0:
		return fullScore
	case l.Latency >= unacceptableLatency:
		return 0
	}
	return int64(unacceptableLatency-l.Latency) * (fullScore / int64(unacceptableLatency))
}

func (latency) explainScore(c *contest, i int) string {
	if c.knownLink(i).Measured {
		return ""
	}
	return "not measured"
}
