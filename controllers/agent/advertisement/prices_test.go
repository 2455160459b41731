package advertisement

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/pricing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// asked is a Settings whose offer contains only the prices of a Pricer.
type asked struct{ *pricing.Pricer }

func (a asked) Offered() Offered         { return Offered{Cost: a.Cost()} }
func (a asked) Changed() <-chan struct{} { return nil }
func (a asked) Conditions() []metav1.Condition {
	if c := a.Condition(); c != nil {
		return []metav1.Condition{*c}
	}
	return nil
}

type twoNodes struct{}

func (twoNodes) Lent(int64) ([]capacity.LentNode, int64) {
	return []capacity.LentNode{
		{Name: "n1", Allocatable: quantity.Amounts{"cpu": 4000, "memory": 8 << 30}},
		{Name: "n2", Allocatable: quantity.Amounts{"cpu": 12000, "memory": 8 << 30}},
	}, 1
}

// The mean of OpenCost's prices is advertised at the next reconcile. It stays while OpenCost is
// down, which a condition and an event report.
func TestPricesOfOpenCostAreAdvertised(t *testing.T) {
	var away atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, `node_cpu_hourly_cost{node="n1"} 0.04
node_cpu_hourly_cost{node="n2"} 0.08
node_ram_hourly_cost{node="n1"} 0.004
node_ram_hourly_cost{node="n2"} 0.005`)
	}))
	defer server.Close()
	b := newBench(t)
	ticks := clocktesting.NewFakeClock(b.clock.Now())
	pricer := pricing.New(twoNodes{}, ticks, logr.Discard())
	b.options.Settings = asked{pricer}
	b.after(0)
	b.expect(1, 2, 1)
	<-b.events.Events // skip the event about condition Ready
	if sent := b.broker.Advertised()[0]; sent.Cost.Currency != "" {
		t.Errorf("without prices %+v is advertised", sent.Cost)
	}

	pricer.Follow(&configuration.Configuration{OpenCost: server.URL, Prices: &brokerv1alpha1.Cost{Currency: "EUR"}})
	runtest.Start(t, pricer)
	until := func(reason string) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) {
			c := pricer.Condition()
			return c != nil && c.Reason == reason, nil
		}); err != nil {
			t.Fatalf("condition %+v, want %s", pricer.Condition(), reason)
		}
	}
	expect := func(reason string) {
		t.Helper()
		sent := b.broker.Advertised()
		if diff := cmp.Diff(v1.Cost{CPUCost: "0.07", MemoryCost: "0.0045", Currency: "EUR"}, sent[len(sent)-1].Cost); diff != "" {
			t.Errorf("advertised (-want +got):\n%s", diff)
		}
		adv := b.advertisement()
		if diff := cmp.Diff(&brokerv1alpha1.Cost{CPUCost: "0.07", MemoryCost: "0.0045", Currency: "EUR"}, adv.Spec.Cost); diff != "" {
			t.Errorf("written (-want +got):\n%s", diff)
		}
		if c := meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionPriced); c == nil || c.Reason != reason {
			t.Errorf("condition %+v, want %s", c, reason)
		}
	}
	until(agentv1alpha1.ReasonPriced)
	b.after(minGap)
	expect(agentv1alpha1.ReasonPriced)
	if len(b.broker.Advertised()) != 2 || len(b.events.Events) > 0 {
		t.Errorf("%d advertisements, %d events: prices are told at once, and that they are there is no news", len(b.broker.Advertised()), len(b.events.Events))
	}

	away.Store(true)
	ticks.Step(time.Minute)
	until(agentv1alpha1.ReasonOpenCostUnavailable)
	b.after(interval)
	expect(agentv1alpha1.ReasonOpenCostUnavailable)
	if event := <-b.events.Events; !strings.HasPrefix(event, "Warning OpenCostUnavailable no prices from OpenCost at "+server.URL+" since 2026-03-01T12:00:00Z: the server answers 503") {
		t.Errorf("event %q", event)
	}

	away.Store(false)
	ticks.Step(time.Minute)
	until(agentv1alpha1.ReasonPriced)
	b.after(interval)
	expect(agentv1alpha1.ReasonPriced)

	pricer.Follow(configuration.Default())
	b.after(interval)
	if c := meta.FindStatusCondition(b.advertisement().Status.Conditions, agentv1alpha1.ConditionPriced); c != nil {
		t.Errorf("without OpenCost: %+v", c)
	}
}
