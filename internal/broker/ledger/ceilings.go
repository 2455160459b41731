package ledger

import (
	"fmt"
	"maps"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Ceilings bound the ratios of over-subscription, whatever ratios clusters offer. They replace
// the former ceilings.
type Ceilings struct {
	OverSubscription quantity.Ratios `json:"overSubscription,omitempty"`
}

// LendableOf returns the result of Lendable for that offer.
func (s *State) LendableOf(o *Offer) quantity.Amounts {
	return o.Allocatable.Stretched(s.clusters.stretchOf(o))
}

// HasCeilings reports whether these ratios are in force.
func (s *State) HasCeilings(ratios quantity.Ratios) bool {
	return maps.Equal(s.clusters.ceilings.OverSubscription, ratios)
}

// Stretch returns the factor by which each of the cluster's resources may be promised.
func (c *Cluster) Stretch() quantity.Ratios { return c.stretch }

// Lendable returns the total amounts that may be promised, to the cluster's own pods and to
// reservations.
func (c *Cluster) Lendable() quantity.Amounts { return c.Allocatable.Stretched(c.stretch) }

func (*Ceilings) subject() string { return "" }

func (c *Ceilings) checkAgainst(*State) error {
	if err := c.OverSubscription.Check(); err != nil {
		return fmt.Errorf("%w: ceilings: %w", ErrMalformed, err)
	}
	return nil
}

func (c *Ceilings) applyTo(s *State, _ time.Time) {
	s.clusters.ceilings = *c
	for _, cluster := range s.clusters.byID {
		cluster.stretch = s.clusters.stretchOf(&cluster.Offer)
	}
}

// stretchOf returns how many times the resources of an offer may be promised: the offered
// ratios, bounded by the ceilings.
func (cs *clusters) stretchOf(o *Offer) quantity.Ratios {
	return o.OverSubscription.Within(cs.ceilings.OverSubscription)
}
