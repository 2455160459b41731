package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Cluster is what the book stores about one cluster: its offer, and the capacity that is held
// there.
type Cluster struct {
	ClusterState
	// holds are the amounts that each placement locks on this cluster, by placement name.
	holds map[string]quantity.Amounts
	// quoted are the quotes that hold capacity on the cluster, by name.
	quoted map[string]*Quote
	// claimed is what is not free for new placements: the sum of max(held, used) over all
	// placements, plus the amounts of quotes. It includes placements that use capacity without
	// holding any.
	claimed quantity.Amounts
	// stretch is how many times each resource may be promised: the offered OverSubscription,
	// bounded by the administrator's ceilings.
	stretch quantity.Ratios
	// tariff is Cost, parsed.
	tariff money.Tariff
}

// ClusterState is the part of a Cluster that a snapshot contains.
type ClusterState struct {
	Offer
	// OfferedAt is the time of the last Offer or, if it is later, of the last ForgetCluster.
	OfferedAt time.Time `json:"offeredAt"`
	// AgentSince is when the cluster's agent first made an offer; zero if it never did.
	AgentSince time.Time `json:"agentSince,omitzero"`
	// AnnouncedIn is the ID of the newest lineage in which the cluster announced its holdings; ""
	// for none.
	AnnouncedIn string `json:"announcedIn,omitempty"`
	// LostSince is when the cluster's agent last called, if the agent is recorded as silent; else
	// zero.
	LostSince time.Time `json:"lostSince,omitzero"`
	// Record counts the outcomes of the placements on the cluster.
	Record reputation.Record `json:"record,omitzero"`
	// Providing is the cluster's reputation as a provider, Consuming that as a consumer, which
	// exceeding its grants spoils. Each is nil if there were no recent failures.
	Providing *reputation.Reputation `json:"providing,omitempty"`
	Consuming *reputation.Reputation `json:"consuming,omitempty"`
	// Lifted is the mark of the last LiftPauses, with which an administrator cleared the cluster's
	// failures; "" for none.
	Lifted string `json:"lifted,omitempty"`
}

func newCluster(state ClusterState) *Cluster {
	return &Cluster{ClusterState: state, holds: map[string]quantity.Amounts{}, quoted: map[string]*Quote{}}
}

// Held returns the sum of the amounts that placements and quotes hold on the cluster.
func (c *Cluster) Held() quantity.Amounts {
	sum := c.sumQuoted()
	for _, h := range c.holds {
		sum.AddInPlace(h)
	}
	return sum
}

// Claimed returns what is not free for new placements: for each placement, the larger of what it
// holds and what it uses, plus the amounts of quotes.
func (c *Cluster) Claimed() quantity.Amounts { return c.claimed }

// Available returns the amounts that can still be granted. They are never below zero.
func (c *Cluster) Available() quantity.Amounts {
	free := c.Lendable().Sub(c.Allocated).Sub(c.claimed)
	for name, amount := range free {
		free[name] = max(amount, 0)
	}
	return free
}

// Holds reports whether a placement holds capacity on the cluster.
func (c *Cluster) Holds(placement string) bool {
	_, ok := c.holds[placement]
	return ok
}

// IsWithdrawn reports whether the cluster no longer offers anything: its ClusterAdvertisement was deleted and it has no
// agent, or it was forgotten. It stays in the book for what was reserved there.
func (c *Cluster) IsWithdrawn() bool { return !c.Agent && c.Source == nil }

// Placements returns how many placements hold capacity on the cluster.
func (c *Cluster) Placements() int { return len(c.holds) }

// Reservations returns the names of the reservations that hold capacity on the cluster, sorted.
func (c *Cluster) Reservations() []string {
	var out []string
	for placement := range maps.Keys(c.holds) {
		out = append(out, placement[:strings.LastIndexByte(placement, '-')])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (c *Cluster) recountClaimed() {
	claimed := c.sumQuoted()
	for name, held := range c.holds {
		claimed.AddInPlace(held.Max(c.Used[name]))
	}
	for name, used := range c.Used {
		if _, ok := c.holds[name]; !ok {
			claimed.AddInPlace(used)
		}
	}
	c.claimed = claimed
}

// addHold adds what one placement contributes to claimed, and removeHold subtracts it, so their
// cost does not depend on the number of placements. Each exactly undoes the other, because the
// sums cannot saturate: the sum of holds is at most quantity.Limit, and the sum of usage is below
// it (see checkUsed).
func (c *Cluster) addHold(placement string, amounts quantity.Amounts) {
	c.claimed = c.claimed.Add(amounts.Max(c.Used[placement]).Sub(c.Used[placement]))
	c.holds[placement] = amounts
}

func (c *Cluster) removeHold(placement string) {
	c.claimed = c.claimed.Sub(c.holds[placement].Max(c.Used[placement]).Sub(c.Used[placement]))
	delete(c.holds, placement)
}

// clusters holds all clusters in the book, and the broker's configuration.
type clusters struct {
	byID map[string]*Cluster
	// manifests maps the name of each object that contains an offer to the cluster to which the
	// offer belongs.
	manifests     map[objectName]*Cluster
	configuration Configuration
}

// objectName is the name of an object that contains an offer. It does not include the UID.
type objectName struct{ namespace, name string }

func (cs *clusters) hasAgent(id string) bool {
	c := cs.byID[id]
	return c != nil && c.Agent
}

func (cs *clusters) checkFits(provider string, amounts quantity.Amounts) error {
	c := cs.byID[provider]
	if c == nil {
		return fmt.Errorf("provider %q: %w", provider, ErrUnknown)
	}
	if short, ok := quantity.Fits(amounts, c.AvailableWithNewNodes()); !ok {
		return fmt.Errorf("provider %q: %w: %s needs %d, has %d", provider, ErrOverbooked, short.Resource, short.Need, short.Have)
	}
	return nil
}

// indexManifest updates the index of ByManifest for a cluster's new offer. earlier is the object of
// the cluster's former offer, nil for none.
func (cs *clusters) indexManifest(c *Cluster, earlier *Manifest) {
	if earlier != nil {
		if key := (objectName{earlier.Namespace, earlier.Name}); cs.manifests[key] == c {
			delete(cs.manifests, key)
		}
	}
	if m := c.Source; m != nil {
		cs.manifests[objectName{m.Namespace, m.Name}] = c
	}
}
