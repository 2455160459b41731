package pricing

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// rack is a Pricer with nodes and an OpenCost.
type rack struct {
	*testing.T
	*Pricer
	clock    *clocktesting.FakeClock
	nodes    []capacity.LentNode
	revision int64
	listed   int
	// answer of OpenCost; empty if it is down.
	answer string
	server *httptest.Server
	asked  chan struct{}
}

func (r *rack) Lent(seen int64) ([]capacity.LentNode, int64) {
	if r.revision == seen || r.revision == 0 {
		return nil, r.revision
	}
	r.listed++
	return r.nodes, r.revision
}

func newRack(t *testing.T) *rack {
	r := &rack{T: t, clock: clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), asked: make(chan struct{}, 8)}
	r.Pricer = New(r, r.clock, logr.Discard())
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer func() { r.asked <- struct{}{} }()
		if r.answer == "" {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, r.answer)
	}))
	t.Cleanup(r.server.Close)
	return r
}

// lend replaces the lent nodes.
func (r *rack) lend(nodes ...capacity.LentNode) {
	r.nodes = nodes
	r.revision++
}

func lentNode(name string, cpu, memory int64, labels map[string]string) capacity.LentNode {
	return capacity.LentNode{Name: name, Allocatable: quantity.Amounts{"cpu": cpu * 1000, "memory": memory << 30}, Labels: labels}
}

// expect compares prices and condition; reason "" means no condition.
func (r *rack) expect(want *brokerv1alpha1.Cost, reason, says string) {
	r.Helper()
	if diff := cmp.Diff(want, r.Cost()); diff != "" {
		r.Errorf("prices (-want +got):\n%s", diff)
	}
	got, message := "", ""
	if c := r.Condition(); c != nil {
		got, message = c.Reason, c.Message
	}
	if got != reason || !strings.Contains(message, says) {
		r.Errorf("reason %q, message %q; want %q, %q", got, message, reason, says)
	}
}

func euro(cpu, memory string) *brokerv1alpha1.Cost {
	return &brokerv1alpha1.Cost{CPUCost: cpu, MemoryCost: memory, Currency: "EUR", EgressCost: "0.02"}
}

func TestCostOfConfigurationFile(t *testing.T) {
	r := newRack(t)
	r.expect(nil, "", "")
	r.Follow(&configuration.Configuration{Prices: euro("1", "2")})
	r.expect(euro("1", "2"), "", "")
	if r.listed > 0 {
		t.Error("nodes were looked at for nothing")
	}
}

func TestCostOfNodeLabels(t *testing.T) {
	r := newRack(t)
	r.Follow(&configuration.Configuration{Prices: euro("", ""), PriceLabels: map[corev1.ResourceName]string{"cpu": "c", "memory": "m", "nvidia.com/gpu": "g"}})
	r.expect(nil, "", "") // the nodes are not known yet

	r.lend(lentNode("n1", 4, 8, map[string]string{"c": "0.04", "m": "0.004", "g": "9"}), lentNode("n2", 12, 8, map[string]string{"c": "0.08", "m": "0.006"}))
	r.expect(euro("0.07", "0.005"), agentv1alpha1.ReasonPriced, "")
	r.expect(euro("0.07", "0.005"), agentv1alpha1.ReasonPriced, "")
	if r.listed != 1 {
		t.Errorf("nodes were listed %d times though they did not change", r.listed)
	}

	with := lentNode("n3", 0, 0, map[string]string{"g": "0.5"})
	with.Allocatable["nvidia.com/gpu"] = 2
	r.lend(append(r.nodes, with)...)
	want := euro("0.07", "0.005")
	want.ResourceCosts = map[corev1.ResourceName]brokerv1alpha1.Price{"nvidia.com/gpu": "0.5"}
	r.expect(want, agentv1alpha1.ReasonPriced, "")

	r.lend(lentNode("n1", 4, 8, map[string]string{"c": "0.04"}))
	r.expect(nil, agentv1alpha1.ReasonPriceMissing, "price of memory (label m)")
	r.lend()
	r.expect(nil, agentv1alpha1.ReasonPriced, "")

	// The same nodes get other labels.
	r.lend(lentNode("n1", 4, 8, map[string]string{"c": "0.04", "d": "0.05"}))
	r.Follow(&configuration.Configuration{Prices: euro("", ""), PriceLabels: map[corev1.ResourceName]string{"cpu": "d"}})
	r.expect(euro("0.05", ""), agentv1alpha1.ReasonPriced, "")
	r.Follow(&configuration.Configuration{})
	r.expect(nil, "", "")
}

// OpenCost's last answer stays in use while it is down, with the present nodes.
func TestCostOfOpenCost(t *testing.T) {
	r := newRack(t)
	r.lend(lentNode("n1", 4, 8, nil), lentNode("n2", 4, 24, nil))
	r.Follow(&configuration.Configuration{Prices: euro("", ""), OpenCost: r.server.URL})
	r.expect(nil, "", "")
	r.scrapePrices(t.Context())
	r.expect(nil, agentv1alpha1.ReasonOpenCostUnavailable, "since 2026-03-01T12:00:00Z: the server answers 503 Service Unavailable; spec.cost")

	r.clock.Step(askEvery)
	r.answer = exported
	r.scrapePrices(t.Context())
	first := euro("0.031611", "0.004237092") // memory is the mean of 0.004237 for 8 and 0.004237123 for 24 GiB
	r.expect(first, agentv1alpha1.ReasonPriced, "")

	r.clock.Step(askEvery)
	r.answer = ""
	r.scrapePrices(t.Context())
	r.expect(first, agentv1alpha1.ReasonOpenCostUnavailable, "since 2026-03-01T12:01:00Z: the server answers 503 Service Unavailable; its last prices stay in force")
	r.lend(lentNode("n1", 4, 8, nil), lentNode("n9", 4, 8, nil))
	r.expect(euro("0.031611", "0.004237"), agentv1alpha1.ReasonOpenCostUnavailable, "")

	r.answer = exported
	r.scrapePrices(t.Context())
	r.expect(euro("0.031611", "0.004237"), agentv1alpha1.ReasonPriced, `node "n9" has no metric node_cpu_hourly_cost`)

	// The configuration names another OpenCost. The first scrape fails, because its context has
	// ended, so no prices are known until the next one.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.Follow(&configuration.Configuration{Prices: euro("", ""), OpenCost: r.server.URL + "/other"})
	r.scrapePrices(ctx)
	r.expect(nil, "", "")
	r.scrapePrices(t.Context())
	r.expect(euro("0.031611", "0.004237"), agentv1alpha1.ReasonPriced, "")
}

func TestPricerScrapesEveryMinuteAndOnChange(t *testing.T) {
	r := newRack(t)
	r.answer = exported
	runtest.Start(t, r)
	r.Follow(&configuration.Configuration{Prices: euro("", ""), OpenCost: r.server.URL})
	<-r.asked
	for range 2 {
		r.clock.Step(askEvery)
		<-r.asked
	}
	r.Follow(&configuration.Configuration{Prices: euro("", ""), OpenCost: r.server.URL + "/other"})
	<-r.asked
}
