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
	"github.com/mehdiazizian/liqo-resource-broker/internal/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/configuration"
)

// askEvery is how often OpenCost is asked, which is how often Prometheus asks it.
const askEvery = time.Minute

// Nodes that are lent.
type Nodes interface {
	Lent(seen int64) (nodes []capacity.LentNode, revision int64)
}

var _ Nodes = (*capacity.Watcher)(nil)

// Pricer has the prices of the configuration that it follows. It is safe for concurrent
// use and is a Runnable of a manager, on every replica.
type Pricer struct {
	nodes  Nodes
	clock  clock.WithTicker
	log    logr.Logger
	client *http.Client
	// changed receives after another OpenCost is to be asked.
	changed chan struct{}

	// mu guards the following.
	mu     sync.Mutex
	follow *configuration.Configuration
	// said is what OpenCost said last; nil if it has not said anything. problem is why it
	// says nothing now, and since when it does not.
	said    said
	problem error
	since   time.Time
	// tariff is of the nodes at a revision; 0 is of none.
	tariff   tariff
	revision int64
}

// New makes a Pricer of nodes. It follows nothing yet.
func New(nodes Nodes, c clock.WithTicker, log logr.Logger) *Pricer {
	return &Pricer{nodes: nodes, clock: c, log: log, client: newClient(), changed: make(chan struct{}, 1), follow: configuration.Default()}
}

// Follow a configuration from now on.
func (p *Pricer) Follow(c *configuration.Configuration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.OpenCost != p.follow.OpenCost {
		p.said, p.problem, p.since = nil, nil, p.clock.Now()
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}
	p.follow, p.revision = c, 0
}

// Start asks OpenCost, while the configuration names it, until ctx ends.
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
		p.ask(ctx)
	}
}

// NeedLeaderElection lets every replica know the prices, so that a new leader can advertise
// them at once.
func (p *Pricer) NeedLeaderElection() bool { return false }

// ask OpenCost once. What it said last holds where it does not answer.
func (p *Pricer) ask(ctx context.Context) {
	p.mu.Lock()
	address := p.follow.OpenCost
	p.mu.Unlock()
	if address == "" {
		return
	}
	said, err := ask(ctx, p.client, address)

	p.mu.Lock()
	defer p.mu.Unlock()
	if address != p.follow.OpenCost || ctx.Err() != nil {
		return
	}
	if err != nil {
		if p.problem == nil {
			p.log.Error(err, "OpenCost says no prices, those before stay in force", "address", address)
		}
		p.problem = err
		return
	}
	p.said, p.problem, p.since, p.revision = said, nil, p.clock.Now(), 0
}

// Cost is what the cluster asks for; nil where that is not known, so that what stands in
// the Advertisement holds.
func (p *Pricer) Cost() *brokerv1alpha1.Cost {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.where() == nil {
		return p.follow.Prices
	}
	if !p.reckon() || len(p.tariff.prices) == 0 {
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

// where a node says the price of each resource; nil where nodes say none.
func (p *Pricer) where() map[corev1.ResourceName]string {
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

// reckon with the nodes as they are; it costs something only where they, or what is said of
// them, have changed. It reports whether there is anything to reckon with.
func (p *Pricer) reckon() (known bool) {
	if p.follow.OpenCost != "" && p.said == nil {
		return false
	}
	lent, revision := p.nodes.Lent(p.revision)
	if revision == 0 || revision == p.revision {
		return revision != 0
	}
	nodes := make([]node, len(lent))
	for i, n := range lent {
		nodes[i] = node{name: n.Name, allocatable: n.Allocatable, says: p.said[n.Name]}
		if p.follow.OpenCost == "" {
			nodes[i].says = labelled(n.Labels, p.follow.PriceLabels)
		}
	}
	p.tariff, p.revision = mean(nodes, slices.Collect(maps.Keys(p.where()))), revision
	return true
}

// labelled is what the labels of a node say.
func labelled(labels map[string]string, keys map[corev1.ResourceName]string) map[corev1.ResourceName]string {
	says := map[corev1.ResourceName]string{}
	for resource, key := range keys {
		if text, ok := labels[key]; ok {
			says[resource] = text
		}
	}
	return says
}

// Condition says how the prices are that nodes name; nil where they name none, or where
// that is not known yet.
func (p *Pricer) Condition() *metav1.Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	where := p.where()
	if where == nil {
		return nil
	}
	known := p.reckon()
	if p.problem != nil {
		return p.unavailable()
	}
	if !known {
		return nil
	}
	return p.tariff.condition(where)
}

// unavailable tells of an OpenCost that does not say prices.
func (p *Pricer) unavailable() *metav1.Condition {
	holds := "what it said then stays in force"
	if p.said == nil {
		holds = "what stands in spec.cost of the Advertisement stays in force"
	}
	return &metav1.Condition{
		Type: agentv1alpha1.ConditionPriced, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonOpenCostUnavailable,
		Message: fmt.Sprintf("OpenCost at %s has said no prices since %s: %v; %s", p.follow.OpenCost, p.since.UTC().Format(time.RFC3339), p.problem, holds),
	}
}

// condition of a tariff whose prices stand where nodes say them.
func (t *tariff) condition(where map[corev1.ResourceName]string) *metav1.Condition {
	c := &metav1.Condition{
		Type: agentv1alpha1.ConditionPriced, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonPriced,
		Message: "prices are the means of what the lent nodes name",
	}
	left := t.told(where)
	switch {
	case len(t.unpriced) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonPriceMissing
		c.Message = fmt.Sprintf("no lent node names the price of %s (%s): what stands in spec.cost of the Advertisement stays in force", t.unpriced[0], where[t.unpriced[0]])
	case len(t.wrong) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonPriceInvalid
		c.Message = "prices are the means of what the other lent nodes name"
	}
	if left != "" {
		c.Message += "; left out: " + left
	}
	return c
}
