package offers

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// leapFactor is how many times larger a resource may become from one advertisement to the next
	// without being implausible.
	leapFactor = 4
	// leapWithin is how far apart two advertisements may be to be compared: over a longer time, a
	// cluster may really have grown.
	leapWithin = 5 * time.Minute
)

// Doubts describes implausible figures of a valid offer. They do not prevent placements: they
// are shown to an administrator, who decides. (Check refuses an offer with more allocatable
// than capacity.)
func Doubts(o *ledger.Offer) []string {
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

// Leap describes implausible growth from one advertisement to the next, "" if there is
// none. apart is the time between the two.
func Leap(before, after *ledger.Offer, apart time.Duration) string {
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
