package advertisement

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
)

func TestLiqoConditionAndItsEvents(t *testing.T) {
	const (
		isTrue, isFalse, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
		ready, hidden            = agentv1alpha1.ReasonLiqoReady, agentv1alpha1.ReasonLiqoHidden
		untested                 = agentv1alpha1.ReasonLiqoVersionUntested
		unlimited                = agentv1alpha1.ReasonLimitsNotEnforced
		missing                  = agentv1alpha1.ReasonLiqoMissing
	)
	b := newBench(t)
	var shown metav1.Condition
	b.options.Liqo = func(context.Context) *metav1.Condition { return &shown }
	for i, step := range []struct {
		name            string
		status          metav1.ConditionStatus
		reason, message string
		// event is empty if the condition did not change.
		event string
		// unready is what the broker is told.
		unready string
	}{
		{"what cannot be read from the beginning is no news", unknown, hidden, "forbidden", "", ""},
		{"it can be read", isTrue, ready, "v1.2.0", "Normal LiqoReady v1.2.0", ""},
		{"nothing happens", isTrue, ready, "v1.2.0", "", ""},
		{"another patch is installed", isTrue, ready, "v1.2.1", "", ""},
		{"another minor version", isTrue, untested, "v1.3.0", "Warning LiqoVersionUntested v1.3.0", ""},
		{"without limits", isFalse, unlimited, "None", "Warning LimitsNotEnforced None", ""},
		{"with half of them", isFalse, unlimited, "Soft", "", ""},
		{"it is gone", isFalse, missing, "none", "Warning LiqoMissing none", "LiqoMissing"},
		{"it cannot be read any more", unknown, hidden, "forbidden", "Normal LiqoHidden forbidden", ""},
	} {
		shown = metav1.Condition{Type: agentv1alpha1.ConditionLiqoReady, Status: step.status, Reason: step.reason, Message: step.message}
		b.after(interval)
		if i == 0 {
			<-b.events.Events // skip the event about condition Ready
		}
		got := meta.FindStatusCondition(b.advertisement().Status.Conditions, shown.Type)
		if got == nil || got.Status != step.status || got.Reason != step.reason || got.Message != step.message {
			t.Errorf("%s: condition %+v, want %+v", step.name, got, shown)
		}
		all := b.broker.Advertised()
		if got := all[len(all)-1].Lending.Unready; got != step.unready {
			t.Errorf("%s: the broker is told %q, want %q", step.name, got, step.unready)
		}
		event := ""
		if len(b.events.Events) > 0 {
			event = <-b.events.Events
		}
		if event != step.event {
			t.Errorf("%s: event %q, want %q", step.name, event, step.event)
		}
	}
	if len(b.broker.Advertised()) != 9 || !meta.IsStatusConditionTrue(b.advertisement().Status.Conditions, agentv1alpha1.ConditionReady) {
		t.Errorf("%d advertisements were published, want 9 whatever Liqo was", len(b.broker.Advertised()))
	}

	// Peering is disabled.
	shown = metav1.Condition{Type: agentv1alpha1.ConditionPeeringSkipped, Status: isTrue, Reason: agentv1alpha1.ReasonPeeringSkipped, Message: "none"}
	b.after(interval)
	conditions := b.advertisement().Status.Conditions
	if got := meta.FindStatusCondition(conditions, agentv1alpha1.ConditionLiqoReady); got != nil {
		t.Errorf("condition %+v of a cluster that does not peer", got)
	}
	if !meta.IsStatusConditionTrue(conditions, agentv1alpha1.ConditionPeeringSkipped) {
		t.Errorf("conditions %+v, want PeeringSkipped", conditions)
	}
	if all := b.broker.Advertised(); all[len(all)-1].Lending.Unready != lending.NotPeering {
		t.Errorf("the broker is told %+v, want %s", all[len(all)-1].Lending, lending.NotPeering)
	}
	if got := <-b.events.Events; got != "Normal PeeringSkipped none" {
		t.Errorf("event %q", got)
	}
}
