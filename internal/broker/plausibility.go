package broker

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// leapFactor is by how much a resource may grow from one advertisement to the next without
	// doubt.
	leapFactor = 4
	// leapWithin is how close two advertisements are compared; in a longer silence a cluster
	// can really grow.
	leapWithin = 5 * time.Minute
	// leapDoubted is how long the doubt lasts if the figures stay.
	leapDoubted = 10 * time.Minute
)

// doubts lists what cannot be right in an offer that can still be used. They do not keep
// anything from being placed: an administrator sees them and decides. Allocatable beyond
// capacity is refused, see CheckOffer.
func doubts(o *ledger.Offer) []string {
	var out []string
	onNodes := quantity.Amounts{}
	for _, s := range o.Shapes {
		onNodes = onNodes.Add(s.Free.Times(int64(s.Count)))
	}
	for _, name := range o.Allocated.Names() {
		if own := o.Allocated[name]; own > o.Allocatable[name] {
			out = append(out, fmt.Sprintf("its own pods are said to request %s of %s, of which %s are allocatable",
				quantity.Format(name, own), name, quantity.Format(name, o.Allocatable[name])))
		}
	}
	for _, name := range onNodes.Names() {
		if free := onNodes[name]; free > o.Allocatable[name] {
			out = append(out, fmt.Sprintf("its nodes are said to have %s of %s free, of which %s are allocatable",
				quantity.Format(name, free), name, quantity.Format(name, o.Allocatable[name])))
		}
	}
	return out
}

// leap describes what grew implausibly from one advertisement to the next, "" for nothing.
func leap(before, after *ledger.Offer, apart time.Duration) string {
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

// doubts returns the doubts about a cluster now.
func (cs *clusters) doubts(c *ledger.Cluster) []string {
	out := doubts(&c.Offer)
	if p := cs.of(c.ClusterID); p.leap != "" && cs.s.now().Sub(p.leapt) < leapDoubted {
		out = append(out, p.leap)
	}
	return out
}
