package advertisement

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
)

// another is a broker of a given minor version.
type another struct {
	*transporttest.Direct
	minor int32
	pings int
}

func (a *another) Ping(ctx context.Context) (*v1.Pong, error) {
	a.pings++
	pong, err := a.Direct.Ping(ctx)
	if err != nil {
		return nil, err
	}
	pong.ApiMinor = a.minor
	return pong, nil
}

func TestCompatibilityConditionAndItsEvents(t *testing.T) {
	const isTrue, isFalse = metav1.ConditionTrue, metav1.ConditionFalse
	b := newBench(t)
	broker := &another{Direct: b.broker}
	b.publisher = broker
	event := func() string {
		if len(b.events.Events) == 0 {
			return ""
		}
		return <-b.events.Events
	}

	broker.SetDown(true)
	b.after(interval)
	<-b.events.Events // skip the event about condition Ready
	if c := meta.FindStatusCondition(b.advertisement().Status.Conditions, agentv1alpha1.ConditionBrokerCompatible); c != nil {
		t.Errorf("condition %+v of a broker that never answered", c)
	}
	broker.SetDown(false)
	for i, step := range []struct {
		name   string
		minor  int32
		status metav1.ConditionStatus
		reason string
		event  string
	}{
		{"of the same version", v1.Minor, isTrue, agentv1alpha1.ReasonBrokerCompatible, ""},
		{"one newer", v1.Minor + 1, isTrue, agentv1alpha1.ReasonBrokerCompatible, ""},
		{"two newer", v1.Minor + 2, isFalse, agentv1alpha1.ReasonBrokerTooNew,
			"Warning BrokerTooNew the broker speaks v1.3 of the API, this agent v1.1: they may misunderstand each other, upgrade this agent, one minor version after the other"},
		{"one older", v1.Minor - 1, isTrue, agentv1alpha1.ReasonBrokerCompatible,
			"Normal BrokerCompatible the broker speaks v1.0 of the API, this agent v1.1"},
		{"two older", v1.Minor - 2, isFalse, agentv1alpha1.ReasonBrokerTooOld,
			"Warning BrokerTooOld the broker speaks v1.-1 of the API, this agent v1.1: they may misunderstand each other, upgrade the broker, one minor version after the other"},
	} {
		broker.minor = step.minor
		b.after(askEvery)
		if i == 0 {
			<-b.events.Events // skip the event about condition Ready, which is True again
		}
		got := meta.FindStatusCondition(b.advertisement().Status.Conditions, agentv1alpha1.ConditionBrokerCompatible)
		if got == nil || got.Status != step.status || got.Reason != step.reason {
			t.Errorf("%s: condition %+v, want %s %s", step.name, got, step.status, step.reason)
		}
		if got := event(); got != step.event {
			t.Errorf("%s: event %q, want %q", step.name, got, step.event)
		}
	}
	if got := len(b.broker.Advertised()); got != 5 {
		t.Errorf("%d advertisements were published, want 5 whatever the version", got)
	}

	asked := broker.pings
	b.after(interval)
	broker.SetDown(true)
	b.after(askEvery)
	<-b.events.Events // skip the event about condition Ready
	if broker.pings != asked+1 {
		t.Errorf("the broker was asked %d times, want once in two minutes", broker.pings-asked)
	}
	if got := meta.FindStatusCondition(b.advertisement().Status.Conditions, agentv1alpha1.ConditionBrokerCompatible); got == nil || got.Reason != agentv1alpha1.ReasonBrokerTooOld {
		t.Errorf("condition %+v of a broker that is away, want its last word", got)
	}
}
