package advertisement

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

const (
	// askEvery is how long the broker's version is cached. An operator who upgrades the agent
	// or the broker sees within this time whether the versions are compatible.
	askEvery   = 2 * time.Minute
	askTimeout = 5 * time.Second
)

// compatibleCondition returns the condition BrokerCompatible for the version that the broker
// reported last. It returns nil until the broker has reported a version.
func (r *Reconciler) compatibleCondition(ctx context.Context) *metav1.Condition {
	now := r.options.Clock.Now()
	if now.Before(r.ask) {
		return r.fits
	}
	r.ask = now.Add(askEvery)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	pong, err := r.publisher.Ping(ctx)
	if err != nil {
		return r.fits // the condition Ready reports an unreachable broker
	}
	r.fits = skewCondition(version.Skew{Agent: v1.Minor, Broker: int(pong.ApiMinor)})
	return r.fits
}

func skewCondition(skew version.Skew) *metav1.Condition {
	c := &metav1.Condition{
		Type: agentv1alpha1.ConditionBrokerCompatible, Status: metav1.ConditionTrue,
		Reason: agentv1alpha1.ReasonBrokerCompatible, Message: skew.String(),
	}
	if skew.Fits() {
		return c
	}
	c.Status, c.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonBrokerTooNew
	if skew.Agent > skew.Broker {
		c.Reason = agentv1alpha1.ReasonBrokerTooOld
	}
	c.Message += ": they may misunderstand each other, " + skew.Advice()
	return c
}
