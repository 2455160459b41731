package ledger

import (
	"fmt"
	"maps"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Ceilings are the highest ratios at which clusters may promise more than they have,
// whatever they offer. They replace those before.
type Ceilings struct {
	OverSubscription quantity.Ratios `json:"overSubscription,omitempty"`
}

func (*Ceilings) subject() string { return "" }

func (c *Ceilings) checkAgainst(*State) error {
	if err := c.OverSubscription.Check(); err != nil {
		return fmt.Errorf("%w: ceilings: %w", ErrMalformed, err)
	}
	return nil
}

func (c *Ceilings) applyTo(s *State, _ time.Time) {
	s.ceilings = *c
	for _, cluster := range s.clusters {
		cluster.stretch = s.stretchOf(&cluster.Offer)
	}
}

// stretchOf an offer is how many times its resources may be promised: as it says, as far
// as the ceilings allow.
func (s *State) stretchOf(o *Offer) quantity.Ratios {
	return o.OverSubscription.Within(s.ceilings.OverSubscription)
}

// LendableOf is what Lendable would be under an offer.
func (s *State) LendableOf(o *Offer) quantity.Amounts {
	return o.Allocatable.Stretched(s.stretchOf(o))
}

// HasCeilings is whether these ratios are the ceilings.
func (s *State) HasCeilings(ratios quantity.Ratios) bool {
	return maps.Equal(s.ceilings.OverSubscription, ratios)
}

// Stretch is how many times the cluster's resources may be promised.
func (c *Cluster) Stretch() quantity.Ratios { return c.stretch }

// Lendable is what may be promised in all, to the cluster's own pods and to others.
func (c *Cluster) Lendable() quantity.Amounts { return c.Allocatable.Stretched(c.stretch) }
