package pricing

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
)

// askEvery is how often OpenCost is scraped; Prometheus' default.
const askEvery = time.Minute

// Nodes provides the lent nodes.
type Nodes interface {
	Lent(seen int64) (nodes []capacity.LentNode, revision int64)
}

var _ Nodes = (*capacity.Watcher)(nil)

// Pricer computes the prices of the configuration that it follows. It is safe for concurrent
// use and is a Runnable of a manager, on every replica.
type Pricer struct {
	nodes  Nodes
	clock  clock.WithTicker
	log    logr.Logger
	client *http.Client
	// changed receives when the address of OpenCost has changed.
	changed chan struct{}

	// mu guards the following.
	mu     sync.Mutex
	follow *configuration.Configuration
	// lastPrices is OpenCost's last answer, nil before the first. problem is why the last scrape failed;
	// since is when the state last changed.
	lastPrices nodePrices
	problem    error
	since      time.Time
	// tariff was computed from the nodes at revision; 0 if none.
	tariff   tariff
	revision int64
}

// New returns a Pricer. It follows no configuration yet.
func New(nodes Nodes, c clock.WithTicker, log logr.Logger) *Pricer {
	return &Pricer{nodes: nodes, clock: c, log: log, client: newClient(), changed: make(chan struct{}, 1), follow: configuration.Default()}
}

// Follow switches to a configuration.
func (p *Pricer) Follow(c *configuration.Configuration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.OpenCost != p.follow.OpenCost {
		p.lastPrices, p.problem, p.since = nil, nil, p.clock.Now()
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	p.follow, p.revision = c, 0
}

// Start scrapes OpenCost, if the configuration names it, until ctx ends.
func (p *Pricer) Start(ctx context.Context) error {
	tick := p.clock.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		case <-p.changed:
		}
		p.scrapePrices(ctx)
	}
}

// NeedLeaderElection is false: every replica knows the prices, so that a new leader advertises
// them at once.
func (p *Pricer) NeedLeaderElection() bool { return false }

// scrapePrices asks OpenCost once. If it fails, the last answer stays in use.
func (p *Pricer) scrapePrices(ctx context.Context) {
	p.mu.Lock()
	address := p.follow.OpenCost
	p.mu.Unlock()
	if address == "" {
		return
	}
	answer, err := fetchPrices(ctx, p.client, address)

	p.mu.Lock()
	defer p.mu.Unlock()
	if address != p.follow.OpenCost || ctx.Err() != nil {
		return
	}
	if err != nil {
		if p.problem == nil {
			p.log.Error(err, "cannot read prices from OpenCost, the previous ones stay in force", "address", address)
		}
		p.problem = err
		return
	}
	p.lastPrices, p.problem, p.since, p.revision = answer, nil, p.clock.Now(), 0
}

// Cost returns the cluster's prices; nil if they are unknown, so that the Advertisement keeps
// its present ones.
func (p *Pricer) Cost() *brokerv1alpha1.Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.priceSources() == nil {
		return p.follow.Prices
	}
	if !p.refreshTariff() || len(p.tariff.prices) == 0 {
		return nil
	}
	cost := *p.follow.Prices
	others := map[string]string{}
	for name, price := range p.tariff.prices {
		switch name {
		case corev1.ResourceCPU:
			cost.CPUCost = price
		case corev1.ResourceMemory:
			cost.MemoryCost = price
		default:
			others[string(name)] = price
		}
	}
	return configuration.WithResources(cost, others)
}

// priceSources names the label or metric with the price of each resource; nil if nodes have no
// prices.
func (p *Pricer) priceSources() map[corev1.ResourceName]string {
	names, kind := p.follow.PriceLabels, "label"
	if p.follow.OpenCost != "" {
		names, kind = metrics, "metric"
	}
	if names == nil {
		return nil
	}
	out := make(map[corev1.ResourceName]string, len(names))
	for resource, name := range names {
		out[resource] = kind + " " + name
	}
	return out
}

// refreshTariff recomputes the prices after a change of the nodes or of their prices. It
// reports whether prices are known.
func (p *Pricer) refreshTariff() (known bool) {
	if p.follow.OpenCost != "" && p.lastPrices == nil {
		return false
	}
	lent, revision := p.nodes.Lent(p.revision)
	if revision == 0 || revision == p.revision {
		return revision != 0
	}
	nodes := make([]node, len(lent))
	for i, n := range lent {
		nodes[i] = node{name: n.Name, allocatable: n.Allocatable, says: p.lastPrices[n.Name]}
		if p.follow.OpenCost == "" {
			nodes[i].says = labelPrices(n.Labels, p.follow.PriceLabels)
		}
	}
	p.tariff, p.revision = meanPrices(nodes, slices.Collect(maps.Keys(p.priceSources()))), revision
	return true
}

// labelPrices returns the prices in a node's labels.
func labelPrices(labels map[string]string, keys map[corev1.ResourceName]string) map[corev1.ResourceName]string {
	says := map[corev1.ResourceName]string{}
	for resource, key := range keys {
		if text, ok := labels[key]; ok {
			says[resource] = text
		}
	}
	return says
}

// Condition describes the prices of nodes; nil if nodes have none, or before they are known.
func (p *Pricer) Condition() *metav1.Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	where := p.priceSources()
	if where == nil {
		return nil
	}
	known := p.refreshTariff()
	if p.problem != nil {
		return p.unavailableCondition()
	}
	if !known {
		return nil
	}
	return p.tariff.conditionOf(where)
}

// unavailableCondition is the condition of a failing OpenCost.
func (p *Pricer) unavailableCondition() *metav1.Condition {
	holds := "its last prices stay in force"
	if p.lastPrices == nil {
		holds = "spec.cost of the Advertisement stays in force"
	}
	return &metav1.Condition{
		Type: agentv1alpha1.ConditionPriced, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonOpenCostUnavailable,
		Message: fmt.Sprintf("no prices from OpenCost at %s since %s: %v; %s", p.follow.OpenCost, p.since.UTC().Format(time.RFC3339), p.problem, holds),
	}
}

// conditionOf of a tariff; where names the label or metric of each resource.
func (t *tariff) conditionOf(where map[corev1.ResourceName]string) *metav1.Condition {
	c := &metav1.Condition{
		Type: agentv1alpha1.ConditionPriced, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonPriced,
		Message: "prices are the means of the lent nodes' prices",
	}
	left := t.describeOmissions(where)
	switch {
	case len(t.unpriced) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonPriceMissing
		c.Message = fmt.Sprintf("no lent node has a price of %s (%s): spec.cost of the Advertisement stays in force", t.unpriced[0], where[t.unpriced[0]])
	case len(t.wrong) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonPriceInvalid
		c.Message = "prices are the means of the other lent nodes' prices"
	}
	if left != "" {
		c.Message += "; left out: " + left
	}
	return c
}
