package broker

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// leapFactor is the largest plausible growth of a resource from one advertisement to the
	// next.
	leapFactor = 4
	// leapWithin is the largest time between two advertisements that are compared; in a longer
	// silence a cluster can really grow.
	leapWithin = 5 * time.Minute
	// leapDoubted is how long the doubt lasts if the figures stay the same.
	leapDoubted = 10 * time.Minute
)

// listDoubts lists implausible figures of a valid offer. They do not prevent placements: an
// administrator sees them and decides. CheckOffer refuses an offer with more allocatable than
// capacity.
func listDoubts(o *ledger.Offer) []string {
	var out []string
	onNodes := quantity.Amounts{}
	for _, s := range o.Shapes {
		onNodes = onNodes.Add(s.Free.Times(s.Count))
	}
	for _, name := range o.Allocated.Names() {
		if own := o.Allocated[name]; own > o.Allocatable[name] {
			out = append(out, fmt.Sprintf("it reports that its own pods request %s of %s, of which %s are allocatable",
				quantity.Format(name, own), name, quantity.Format(name, o.Allocatable[name])))
		}
	}
	for _, name := range onNodes.Names() {
		if free := onNodes[name]; free > o.Allocatable[name] {
			out = append(out, fmt.Sprintf("it reports that its nodes have %s of %s free, of which %s are allocatable",
				quantity.Format(name, free), name, quantity.Format(name, o.Allocatable[name])))
		}
	}
	return out
}

// describeLeap describes implausible growth from one advertisement to the next, "" for none.
func describeLeap(before, after *ledger.Offer, apart time.Duration) string {
	if apart > leapWithin {
		return ""
	}
	for _, name := range after.Allocatable.Names() {
		was, is := before.Allocatable[name], after.Allocatable[name]
		if was > 0 && is/leapFactor > was {
			return fmt.Sprintf("its allocatable %s grew from %s to %s from one advertisement to the next",
				name, quantity.Format(name, was), quantity.Format(name, is))
		}
	}
	return ""
}

// doubtsAbout returns the doubts about a cluster now.
func (cs *clusters) doubtsAbout(c *ledger.Cluster) []string {
	out := listDoubts(&c.Offer)
	if p := cs.presenceOf(c.ClusterID); p.leap != "" && cs.s.now().Sub(p.leapt) < leapDoubted {
		out = append(out, p.leap)
	}
	return out
}
