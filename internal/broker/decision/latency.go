package decision

import "time"

// unacceptableLatency is the round trip that scores 0. The score falls linearly to it.
const unacceptableLatency = 200 * time.Millisecond

// latency judges the round trip from the requester. A candidate without a measurement gets 50
// points. If no candidate has one, the criterion does not count.
type latency struct{}

func (latency) name() string { return Latency }

func (latency) prepareScores(c *contest) bool {
	for _, l := range c.links {
		if l.Measured {
			return true
		}
	}
	return false
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
