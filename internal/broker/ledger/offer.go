package ledger

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Offer is the content of a cluster's advertisement. It replaces the cluster's former offer.
type Offer struct {
	ClusterID   string `json:"clusterID"`
	ClusterName string `json:"clusterName,omitempty"`
	Endpoint    string `json:"endpoint,omitempty"`
	Region      string `json:"region,omitempty"`
	Zone        string `json:"zone,omitempty"`
	// Agent is true for an offer from the cluster's agent, false for a hand-written one. Once a
	// cluster has had an agent, it is always treated as having one.
	Agent       bool             `json:"agent,omitempty"`
	Capacity    quantity.Amounts `json:"capacity"`
	Allocatable quantity.Amounts `json:"allocatable"`
	// Allocated is the sum of the requests of the cluster's own pods.
	Allocated quantity.Amounts `json:"allocated,omitempty"`
	// Used holds the requests of each placement's pods, by placement name.
	Used map[string]quantity.Amounts `json:"used,omitempty"`
	// UsedApart keeps Used from the former offer. Events of type Usage then change it: the
	// usage of a cluster with many placements does not fit into one record.
	UsedApart bool                 `json:"usedApart,omitempty"`
	Shapes    []quantity.NodeShape `json:"shapes,omitempty"`
	// OverSubscription holds the ratios at which the cluster's resources may be promised,
	// within the ceilings.
	OverSubscription quantity.Ratios      `json:"overSubscription,omitempty"`
	Cost             *brokerv1alpha1.Cost `json:"cost,omitempty"`
	// Labels and Claims are matched by the constraints of requests.
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
	// Digest of the contained offer, to detect changes.
	Digest string `json:"digest"`
}

func (*Offer) subject() string { return "" }

func (o *Offer) checkAgainst(*State) error { return o.checkFields() }

// checkFields keeps every sum in the book within an int64. A saturated sum would depend on the
// order of additions, and so differ between a running and a restored book.
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
		c = &Cluster{Offer: Offer{ClusterID: o.ClusterID}, holds: map[string]quantity.Amounts{}, quoted: map[string]*Quote{}}
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
	c.stretch = s.clusters.stretchOf(o)
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
