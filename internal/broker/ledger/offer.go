package ledger

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Offer is the content of a cluster's advertisement. It replaces the cluster's former offer.
type Offer struct {
	ClusterID   string `json:"clusterID"`
	ClusterName string `json:"clusterName,omitempty"`
	Endpoint    string `json:"endpoint,omitempty"`
	Region      string `json:"region,omitempty"`
	Zone        string `json:"zone,omitempty"`
	// Agent is true if the cluster's agent made the offer, false if it was written by hand. Once a
	// cluster has had an agent, it is always treated as having one.
	Agent       bool             `json:"agent,omitempty"`
	Capacity    quantity.Amounts `json:"capacity"`
	Allocatable quantity.Amounts `json:"allocatable"`
	// Allocated is the sum of the requests of the cluster's own pods.
	Allocated quantity.Amounts `json:"allocated,omitempty"`
	// Used holds the resource requests of the pods that run for each placement, by placement name.
	Used map[string]quantity.Amounts `json:"used,omitempty"`
	// UsedApart is true if the offer leaves Used out, so that the cluster's former Used stays.
	// Events of type Usage then change Used. The broker does this for a cluster with many
	// placements, whose usage does not fit into one record.
	UsedApart bool                 `json:"usedApart,omitempty"`
	Shapes    []quantity.NodeShape `json:"shapes,omitempty"`
	// Elastic are the nodes that the cluster can create; nil if it creates none.
	Elastic *Elastic `json:"elastic,omitempty"`
	// OverSubscription is how many times each resource may be promised, within the administrator's
	// ceilings.
	OverSubscription quantity.Ratios      `json:"overSubscription,omitempty"`
	Cost             *brokerv1alpha1.Cost `json:"cost,omitempty"`
	// Labels and Claims are what the cluster states about itself. The constraints of requests are
	// matched against them.
	Labels map[string]string `json:"labels,omitempty"`
	Claims map[string]string `json:"claims,omitempty"`
	// Lending restricts the requesters to which the cluster lends; nil for no restriction.
	Lending *lending.Policy `json:"lending,omitempty"`
	// Source is the object that contains a hand-written offer.
	Source *Manifest `json:"source,omitempty"`
}

// ObjectRef names an object in the broker cluster.
type ObjectRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Manifest is an object that contains a hand-written offer.
type Manifest struct {
	ObjectRef
	// Digest is the digest of the offer in the object, to detect changes.
	Digest string `json:"digest"`
}

func (*Offer) subject() string { return "" }

func (o *Offer) checkAgainst(*State) error { return o.checkFields() }

// checkFields returns an error for impossible values. It also makes sure that every sum in the book
// fits in an int64. A saturated sum would depend on the order of additions, so a running book and a
// restored one could differ.
func (o *Offer) checkFields() error {
	if o.ClusterID == "" {
		return fmt.Errorf("%w: offer without cluster", ErrMalformed)
	}
	if err := checkUsed(o.ClusterID, o.Used); err != nil {
		return err
	}
	if err := o.OverSubscription.Check(); err != nil {
		return fmt.Errorf("offer of %q: %w: %w", o.ClusterID, ErrMalformed, err)
	}
	if err := o.Elastic.checkFields(); err != nil {
		return fmt.Errorf("offer of %q: %w", o.ClusterID, err)
	}
	for _, amounts := range []quantity.Amounts{o.Capacity, o.Allocatable, o.Allocated} {
		if err := checkAmounts(amounts); err != nil {
			return fmt.Errorf("offer of %q: %w", o.ClusterID, err)
		}
	}
	return nil
}

func (o *Offer) applyTo(s *State, at time.Time) {
	c := s.Cluster(o.ClusterID)
	if c == nil {
		c = newCluster(ClusterState{Offer: Offer{ClusterID: o.ClusterID}})
		s.clusters.byID[o.ClusterID] = c
	}
	id := c.ClusterID // reservations share this string, to save memory
	known := c.Agent
	if o.Agent && !known {
		c.AgentSince = at
	}
	earlier, used := c.Source, c.Used
	c.Offer, c.OfferedAt = *o, at
	if o.UsedApart {
		c.Used = used
	}
	c.ClusterID = id
	s.clusters.indexManifest(c, earlier)
	c.stretch, c.tariff = s.clusters.stretchOf(o), money.ReadTariff(o.Cost)
	c.Agent = known || o.Agent
	c.recountClaimed()
	if c.Agent && !known {
		s.markHolders(c)
	}
}

func checkAmounts(amounts quantity.Amounts) error {
	for name, amount := range amounts {
		if amount < 0 || amount > quantity.Limit {
			return fmt.Errorf("%w: %d of %s, want 0 to %d", ErrMalformed, amount, name, quantity.Limit)
		}
	}
	return nil
}
