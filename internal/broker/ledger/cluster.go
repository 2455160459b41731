package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Cluster is one cluster in the book.
type Cluster struct {
	Offer
	// OfferedAt is when Offer was made.
	OfferedAt time.Time
	// AgentSince is when its agent first made an offer; zero before.
	AgentSince time.Time
	// LostSince is when its agent last reported, if it is silent; else zero.
	LostSince time.Time
	// AnnouncedIn is the newest lineage in which it announced its holdings; "" for none.
	AnnouncedIn string
	// Record counts the outcomes of the placements on the cluster.
	Record Record
	// Providing counts the cluster's recent failures as a provider, Consuming those as a
	// consumer that exceeded its grants. Each is nil if there are none.
	Providing, Consuming *Conduct
	// Lifted is the mark with which an operator last lifted its pauses; "" for none.
	Lifted string
	// holds holds the locked amounts of each placement here, by placement name.
	holds map[string]quantity.Amounts
	// quoted are the quotes that hold capacity here, by name.
	quoted map[string]*Quote
	// claimed is the sum of max(held, used) over all placements, with or without a hold, plus
	// the amounts of quotes.
	claimed quantity.Amounts
	// stretch is OverSubscription bounded by the ceilings.
	stretch quantity.Ratios
}

// Held sums the amounts that placements and quotes hold.
func (c *Cluster) Held() quantity.Amounts {
	sum := c.sumQuoted()
	for _, h := range c.holds {
		sum.AddInPlace(h)
	}
	return sum
}

// Claimed returns the sum of the larger of held and used for each placement, plus the amounts
// of quotes.
func (c *Cluster) Claimed() quantity.Amounts { return c.claimed }

// Available returns what can still be granted, never below zero.
func (c *Cluster) Available() quantity.Amounts {
	free := c.Lendable().Sub(c.Allocated).Sub(c.claimed)
	for name, amount := range free {
		free[name] = max(amount, 0)
	}
	return free
}

// Holds reports whether a placement holds capacity here.
func (c *Cluster) Holds(placement string) bool {
	_, ok := c.holds[placement]
	return ok
}

// Placements returns how many placements hold capacity here.
func (c *Cluster) Placements() int { return len(c.holds) }

// Reservations returns the names of the reservations that hold capacity here, sorted.
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

// addHold and removeHold change claimed by the difference that one placement makes, so their
// cost does not depend on the number of placements. Neither saturates, so each undoes the
// other: the sum of holds is at most quantity.Limit, and the sum of usage is less (see
// Offer.checkAgainst).
func (c *Cluster) addHold(placement string, amounts quantity.Amounts) {
	c.claimed = c.claimed.Add(amounts.Max(c.Used[placement]).Sub(c.Used[placement]))
	c.holds[placement] = amounts
}

func (c *Cluster) removeHold(placement string) {
	c.claimed = c.claimed.Sub(c.holds[placement].Max(c.Used[placement]).Sub(c.Used[placement]))
	delete(c.holds, placement)
}

// clusters are all clusters in the book.
type clusters struct {
	byID map[string]*Cluster
	// manifests holds the clusters whose offer is in an object.
	manifests map[objectName]*Cluster
	ceilings  Ceilings
}

// objectName identifies an object that contains an offer, independently of its UID.
type objectName struct{ namespace, name string }

func newClusters() clusters {
	return clusters{byID: map[string]*Cluster{}, manifests: map[objectName]*Cluster{}}
}

func (cs *clusters) hasAgent(id string) bool {
	c := cs.byID[id]
	return c != nil && c.Agent
}

func (cs *clusters) checkFits(provider string, amounts quantity.Amounts) error {
	c := cs.byID[provider]
	if c == nil {
		return fmt.Errorf("provider %q: %w", provider, ErrUnknown)
	}
	if short, ok := quantity.Fits(amounts, c.Available()); !ok {
		return fmt.Errorf("provider %q: %w: %s needs %d, has %d", provider, ErrOverbooked, short.Resource, short.Need, short.Have)
	}
	return nil
}

// indexManifest makes ByManifest find the cluster by the object of its current offer instead of
// that of the earlier one.
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
