package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Elastic is the part of an offer that does not exist yet: nodes that the cluster creates for a
// placement that does not fit on its existing nodes. A node that exists is part of Allocatable and no
// longer of Elastic, so no capacity is offered twice.
type Elastic struct {
	// Amounts is how much the cluster lends of the nodes that it can still create, in total.
	Amounts quantity.Amounts `json:"amounts,omitempty"`
	// Nodes are these nodes. There may be none.
	Nodes []quantity.NodeShape `json:"nodes,omitempty"`
	// ReadyWithin is how long the cluster may take until the nodes for a placement are Ready, more than
	// zero and at most MaxReadyWithin. The time counts from the grant.
	ReadyWithin time.Duration `json:"readyWithin"`
}

// MaxReadyWithin is the longest time that a cluster may take to create nodes.
const MaxReadyWithin = time.Hour

// AllShapes returns the shapes of the existing nodes, and of those that the cluster can create.
func (o *Offer) AllShapes() []quantity.NodeShape {
	if o.Elastic == nil {
		return o.Shapes
	}
	return slices.Concat(o.Shapes, o.Elastic.Nodes)
}

func (e *Elastic) checkFields() error {
	if e == nil {
		return nil
	}
	if e.ReadyWithin <= 0 || e.ReadyWithin > MaxReadyWithin {
		return fmt.Errorf("%w: new nodes Ready within %s, want more than 0 and at most %s", ErrMalformed, e.ReadyWithin, MaxReadyWithin)
	}
	whole := quantity.Amounts{}
	for _, n := range e.Nodes {
		if n.Count < 1 {
			return fmt.Errorf("%w: %d new nodes", ErrMalformed, n.Count)
		}
		if err := checkAmounts(n.Free); err != nil {
			return err
		}
		whole.AddInPlace(n.Free.Times(n.Count))
	}
	if short, fits := quantity.Fits(e.Amounts, whole); !fits {
		return fmt.Errorf("%w: %d of %s is lent of new nodes that have %d", ErrMalformed, short.Need, short.Resource, short.Have)
	}
	return checkAmounts(e.Amounts)
}

// AvailableWithNewNodes returns the amounts that can be granted if the cluster creates all nodes that its
// offer names. They are never below zero, and equal to Available for a cluster that creates none.
func (c *Cluster) AvailableWithNewNodes() quantity.Amounts {
	if c.Elastic == nil {
		return c.Available()
	}
	whole := c.Lendable().Add(c.Elastic.Amounts)
	for name, amount := range whole {
		whole[name] = min(amount, quantity.Limit) // so that the sum of holds stays within it
	}
	return whole.Sub(c.Allocated).Sub(c.claimed).Max(nil)
}

// Provision records that the provider of a placement has begun to create nodes for it. It may then
// acknowledge the placement until the nodes must be Ready.
type Provision struct{ PlacementRef }

// ProvisioningTime is the time in which the provider of a placement creates nodes for it.
type ProvisioningTime struct {
	Placement int32
	// Ends is when the nodes must be Ready.
	Ends time.Time
}

// ProvisioningOf returns until when the provider of a placement creates nodes for it, nil if it does
// not create any now.
func (r *Reservation) ProvisioningOf(p *Placement) *ProvisioningTime {
	if !r.HadNodesCreated(p) || !p.AcknowledgedAt.IsZero() || !r.Stands(p) {
		return nil
	}
	return r.Provisioning
}

// HadNodesCreated reports whether the provider of a placement created nodes for it. A later placement of the
// reservation may have replaced the record of an ended one.
func (r *Reservation) HadNodesCreated(p *Placement) bool {
	return r.History != nil && r.Provisioning != nil && r.Provisioning.Placement == p.Number
}

func (v *Provision) checkAgainst(s *State) error {
	if err := s.checkStanding(v.PlacementRef); err != nil {
		return err
	}
	_, p := s.findPlacement(v.PlacementRef)
	switch {
	case !p.AcknowledgedAt.IsZero():
		return fmt.Errorf("placement %s: %w: it is acknowledged", v.PlacementRef, ErrTaken)
	case s.Cluster(p.Provider).Elastic == nil:
		return fmt.Errorf("placement %s: %w: %q does not offer to create nodes", v.PlacementRef, ErrTaken, p.Provider)
	}
	return nil
}

func (v *Provision) applyTo(s *State, _ time.Time) {
	r, p := s.findPlacement(v.PlacementRef)
	r.Changed = s.position
	r.updateHistory(func(h *History) {
		h.Provisioning = &ProvisioningTime{Placement: p.Number, Ends: p.AssignedAt.Time().Add(s.Cluster(p.Provider).Elastic.ReadyWithin)}
	})
}
