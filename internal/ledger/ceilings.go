package ledger

import (
	"fmt"
	"maps"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Ceilings are the highest ratios at which clusters may promise more than they have,
// whatever they offer. They replace those before.
type Ceilings struct {
	OverSubscription quantity.Ratios `json:"overSubscription,omitempty"`
}

func checkCeilings(c *Ceilings) error {
	if err := c.OverSubscription.Check(); err != nil {
		return fmt.Errorf("%w: ceilings: %w", ErrMalformed, err)
	}
	return nil
}

func (s *State) applyCeilings(c *Ceilings) {
	s.ceilings = *c
	for _, cluster := range s.clusters {
		cluster.stretch = cluster.OverSubscription.Within(c.OverSubscription)
	}
}

// HasCeilings is whether these ratios are the ceilings.
func (s *State) HasCeilings(ratios quantity.Ratios) bool {
	return maps.Equal(s.ceilings.OverSubscription, ratios)
}

// Stretch is how many times the cluster's resources may be promised: as it offers, as far
// as the ceilings allow.
func (c *Cluster) Stretch() quantity.Ratios { return c.stretch }

// Lendable is what may be promised in all, to the cluster's own pods and to others.
func (c *Cluster) Lendable() quantity.Amounts { return c.Allocatable.Stretched(c.stretch) }
