package broker

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
)

// leapDoubted is how long an implausible growth of a cluster's capacity counts as a doubt about the
// cluster.
const leapDoubted = 10 * time.Minute

// doubtsAbout returns everything that is implausible about a cluster now.
func (cs *clusters) doubtsAbout(c *ledger.Cluster) []string {
	out := offers.Doubts(&c.Offer)
	if p := cs.presenceOf(c.ClusterID); p.leap != "" && cs.s.now().Sub(p.leapt) < leapDoubted {
		out = append(out, p.leap)
	}
	return out
}
