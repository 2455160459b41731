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

// askEvery is how often the metrics of OpenCost are read. It is Prometheus' default.
const askEvery = time.Minute

// Nodes lists the lent nodes, see capacity.Watcher.Lent.
type Nodes interface {
	Lent(seen int64) (nodes []capacity.LentNode, revision int64)
}

// Pricer computes the cluster's prices according to the configuration in force. It is safe for
// concurrent use.
type Pricer struct {
	nodes  Nodes
	clock  clock.WithTicker
	log    logr.Logger
	client *http.Client
	// changed receives a value when the address of OpenCost has changed.
	changed chan struct{}

	// mu protects the fields below.
	mu     sync.Mutex
	follow *configuration.Configuration
	// lastPrices are the prices in OpenCost's latest metrics; nil before its first answer. problem is
	// why the last attempt to read the metrics failed. since is when OpenCost last answered or,
	// before its first answer, when its address was set.
	lastPrices nodePrices
	problem    error
	since      time.Time
	// tariff holds the prices for the nodes at revision. If revision is 0, they must be computed
	// again.
	tariff   tariff
	revision int64
}

// New returns a Pricer. It uses the default configuration, which has no prices, until Follow is
// called.
func New(nodes Nodes, c clock.WithTicker, log logr.Logger) *Pricer {
	return &Pricer{nodes: nodes, clock: c, log: log, client: newClient(), changed: make(chan struct{}, 1), follow: configuration.Default()}
}

// Follow makes the Pricer use a configuration from now on.
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

// Start reads the prices of OpenCost at regular intervals until ctx ends. It reads nothing while
// the configuration names no OpenCost.
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

// NeedLeaderElection returns false: every replica must know the prices, so that a new leader
// advertises them at once.
func (p *Pricer) NeedLeaderElection() bool { return false }

// scrapePrices reads the prices of OpenCost once. If that fails, the previous prices stay in use.
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

// Cost returns the cluster's prices, or nil if they are unknown. In that case, the Advertisement
// keeps its present prices.
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

// priceSources returns, for each resource, the name of the label or metric with its price. It
// returns nil if the configuration does not take prices from nodes.
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

// refreshTariff computes the prices again if the nodes or their prices have changed. It reports
// whether the nodes and, if they are needed, the prices of OpenCost have been read.
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

// labelPrices returns the text of the price label for each resource, without the resources whose
// label is missing.
func labelPrices(labels map[string]string, keys map[corev1.ResourceName]string) map[corev1.ResourceName]string {
	says := map[corev1.ResourceName]string{}
	for resource, key := range keys {
		if text, ok := labels[key]; ok {
			says[resource] = text
		}
	}
	return says
}

// Condition returns the condition Priced. It returns nil if the configuration does not take prices
// from nodes, or before the nodes and their prices have been read. If OpenCost cannot be read,
// Condition says why.
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

// unavailableCondition returns the condition Priced for a time when OpenCost cannot be read.
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

// conditionOf returns the condition Priced for a tariff. where holds, for each resource, the name
// of its label or metric.
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
