package ledger

import (
	"fmt"
	"maps"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Usage changes Offer.Used of one cluster: it stores the amounts in Set and deletes the placements
// in Drop.
type Usage struct {
	ClusterID string                      `json:"clusterID"`
	Set       map[string]quantity.Amounts `json:"set,omitempty"`
	Drop      []string                    `json:"drop,omitempty"`
}

func (*Usage) subject() string { return "" }

func (u *Usage) checkAgainst(s *State) error {
	c := s.Cluster(u.ClusterID)
	if c == nil {
		return fmt.Errorf("usage of %q: %w", u.ClusterID, ErrUnknown)
	}
	return checkUsed(u.ClusterID, u.appliedTo(c.Used))
}

func (u *Usage) applyTo(s *State, _ time.Time) {
	c := s.Cluster(u.ClusterID)
	c.Used = u.appliedTo(c.Used)
	c.recountClaimed()
}

func (u *Usage) appliedTo(used map[string]quantity.Amounts) map[string]quantity.Amounts {
	out := maps.Clone(used)
	if out == nil {
		out = map[string]quantity.Amounts{}
	}
	maps.Copy(out, u.Set)
	for _, placement := range u.Drop {
		delete(out, placement)
	}
	return out
}

func checkUsed(clusterID string, used map[string]quantity.Amounts) error {
	running := quantity.Amounts{}
	for placement, amounts := range used {
		if err := checkAmounts(amounts); err != nil {
			return fmt.Errorf("offer of %q: use of %q: %w", clusterID, placement, err)
		}
		running.AddInPlace(amounts)
	}
	for _, name := range running.Names() {
		if running[name] >= quantity.Limit {
			return fmt.Errorf("offer of %q: %w: more than %d of %s in use", clusterID, ErrMalformed, quantity.Limit-1, name)
		}
	}
	return nil
}
