package ledger

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Offer is what one cluster has to lend, less what it uses itself. It replaces
// the cluster's former offer.
type Offer struct {
	ClusterID   string `json:"clusterID"`
	ClusterName string `json:"clusterName,omitempty"`
	Endpoint    string `json:"endpoint,omitempty"`
	Region      string `json:"region,omitempty"`
	Zone        string `json:"zone,omitempty"`
	// Agent is true when the cluster's agent spoke, false for a hand-written
	// offer. Once an agent spoke, the cluster has one for ever.
	Agent       bool             `json:"agent,omitempty"`
	Capacity    quantity.Amounts `json:"capacity"`
	Allocatable quantity.Amounts `json:"allocatable"`
	// Allocated is what the cluster's own pods request.
	Allocated quantity.Amounts `json:"allocated,omitempty"`
	// Used is what runs for each placement, by placement name.
	Used map[string]quantity.Amounts `json:"used,omitempty"`
	// UsedApart is whether Used is that of the former offer, until events of kind Usage
	// change it: one record does not hold the usage of every cluster.
	UsedApart bool    `json:"usedApart,omitempty"`
	Shapes    []Shape `json:"shapes,omitempty"`
	// OverSubscription is how many times its resources may be promised, if the ceilings
	// allow it.
	OverSubscription quantity.Ratios `json:"overSubscription,omitempty"`
	Cost             *Cost           `json:"cost,omitempty"`
	// Labels and Claims are what requests can ask for.
	Labels map[string]string `json:"labels,omitempty"`
	Claims map[string]string `json:"claims,omitempty"`
	// Lending says whom the cluster lends to, nil for everybody; the ledger only keeps it.
	Lending *lending.Terms `json:"lending,omitempty"`
	// Source is the object a hand-written offer stands in.
	Source *Manifest `json:"source,omitempty"`
}

// Shape counts nodes that have the same amounts free.
type Shape struct {
	Count int32            `json:"count"`
	Free  quantity.Amounts `json:"free"`
	// Labels that these nodes have, of those that the cluster shows.
	Labels map[string]string `json:"labels,omitempty"`
}

// Cost is a cluster's prices as decimal strings, as it advertised them.
type Cost struct {
	CPU       string            `json:"cpu,omitempty"`
	Memory    string            `json:"memory,omitempty"`
	Resources map[string]string `json:"resources,omitempty"`
	Storage   string            `json:"storage,omitempty"`
	Egress    string            `json:"egress,omitempty"`
	Currency  string            `json:"currency,omitempty"`
}

// ObjectRef names an object in the broker cluster.
type ObjectRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Manifest is an object in which somebody wrote an offer by hand.
type Manifest struct {
	ObjectRef
	// Digest of what was written, so that a change is told from a repetition.
	Digest string `json:"digest"`
}

func (*Offer) subject() string { return "" }

// checkAgainst keeps every sum of the book within an int64: a sum that saturates
// would differ between a book that counted up to it and one that was restored.
func (o *Offer) checkAgainst(*State) error {
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

func checkAmounts(amounts quantity.Amounts) error {
	for name, amount := range amounts {
		if amount < 0 || amount > quantity.Limit {
			return fmt.Errorf("%w: %d of %s, want 0 to %d", ErrMalformed, amount, name, quantity.Limit)
		}
	}
	return nil
}

func (o *Offer) applyTo(s *State, at time.Time) {
	c := s.clusters[o.ClusterID]
	if c == nil {
		c = &Cluster{Offer: Offer{ClusterID: o.ClusterID}, holds: map[string]quantity.Amounts{}, quoted: map[string]*Quote{}}
		s.clusters[o.ClusterID] = c
	}
	id := c.ClusterID // the one that reservations share
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
	s.index(c, earlier)
	c.stretch = s.stretchOf(o)
	c.Agent = known || o.Agent
	c.recount()
	if c.Agent && !known {
		s.touchHolders(c)
	}
}

// objectName names an object that an offer stands in, whichever bears the name.
type objectName struct{ namespace, name string }

// index has the cluster be found by the object that its offer stands in, and not by the
// one of an earlier offer.
func (s *State) index(c *Cluster, earlier *Manifest) {
	if earlier != nil {
		if key := (objectName{earlier.Namespace, earlier.Name}); s.manifests[key] == c {
			delete(s.manifests, key)
		}
	}
	if m := c.Source; m != nil {
		s.manifests[objectName{m.Namespace, m.Name}] = c
	}
}

// ByManifest returns the cluster whose offer stands in the object of that name, nil if
// none does. The caller must not change it.
func (s *State) ByManifest(namespace, name string) *Cluster {
	return s.manifests[objectName{namespace, name}]
}
