package advertisement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// written are settings that the test sets.
type written struct {
	offered    Offered
	conditions []metav1.Condition
}

func (w *written) Offered() Offered               { return w.offered }
func (w *written) Changed() <-chan struct{}       { return nil }
func (w *written) Conditions() []metav1.Condition { return w.conditions }

func configured(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: agentv1alpha1.ConditionConfigured, Status: status, Reason: reason, Message: message}}
}

// Withheld capacity is advertised as allocated and shown separately in the cluster. Changed
// settings are published at once.
func TestSettingsChangeWhileAgentRuns(t *testing.T) {
	b := newBench(t)
	settings := &written{conditions: configured(metav1.ConditionTrue, agentv1alpha1.ReasonConfigured, "in force")}
	b.options.Settings = settings
	b.after(0)
	b.expect(1, 2, 1)
	<-b.events.Events // skip the event about condition Ready; there is none about a file that comes into force
	if adv := b.advertisement(); adv.Spec.Withheld != nil || adv.Spec.Topology != nil {
		t.Errorf("without settings: %+v", adv.Spec)
	}

	settings.offered = Offered{
		Topology: &brokerv1alpha1.Topology{Region: "eu"}, Cost: &brokerv1alpha1.Cost{CPUCost: "1", Currency: "EUR"},
		Labels: map[string]brokerv1alpha1.LabelValue{"a": "b"},
		Rules: offering.Rules{
			Withheld: offering.Percentages{All: 50}, Cap: quantity.Amounts{"cpu": 3000}, Ratios: quantity.Ratios{"cpu": 200, "memory": 200},
		},
	}
	b.after(minGap)
	sent := b.broker.Advertised()
	if len(sent) != 2 {
		t.Fatalf("%d advertisements, want one at once", len(sent))
	}
	got := sent[1]
	// Of memory, 2 × 20000 − 4000 is free and half of that is lent, so own and lent amounts
	// need 22000 of 20000.
	if diff := cmp.Diff(v1.Amounts{"cpu": "7", "memory": "4000"}, got.Allocated); diff != "" {
		t.Errorf("allocated (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"memory": "1.1"}, got.OverSubscription); diff != "" {
		t.Errorf("over-subscription (-want +got):\n%s", diff)
	}
	if got.Topology.Region != "eu" || got.Cost.CPUCost != "1" || got.Labels["a"] != "b" {
		t.Errorf("sent %+v", got)
	}
	adv := b.advertisement()
	if kept := adv.Spec.Withheld; len(kept) != 1 || kept.Cpu().String() != "5" || adv.Spec.Resources.Available.Cpu().String() != "3" {
		t.Errorf("withheld %v, available %v", kept, adv.Spec.Resources.Available)
	}

	settings.conditions = configured(metav1.ConditionFalse, agentv1alpha1.ReasonConfigurationRefused, "line 3")
	b.urgent.Store(true) // as followAccounts does after a change of settings
	b.after(time.Second)
	for _, message := range []string{"line 3", "line 4"} {
		settings.conditions[0].Message = message
		b.after(interval)
		c := meta.FindStatusCondition(b.advertisement().Status.Conditions, agentv1alpha1.ConditionConfigured)
		if c == nil || c.Status != metav1.ConditionFalse || c.Message != message {
			t.Errorf("condition %+v, want one that says %q", c, message)
		}
	}
	if event := <-b.events.Events; event != "Warning ConfigurationRefused line 3" || len(b.events.Events) > 0 {
		t.Errorf("event %q and %d more", event, len(b.events.Events))
	}
	if last := b.broker.Advertised(); last[len(last)-1].Allocated["cpu"] != "7" {
		t.Errorf("the settings before do not hold: %+v", last[len(last)-1])
	}

	settings.conditions = nil
	b.after(interval)
	if c := meta.FindStatusCondition(b.advertisement().Status.Conditions, agentv1alpha1.ConditionConfigured); c != nil {
		t.Errorf("without a file: %+v", c)
	}
}
