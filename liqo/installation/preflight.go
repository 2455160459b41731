package installation

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

const (
	// preflightEvery is how long what was seen of Liqo is good for: somebody who mends it
	// wants to see so, and three reads in two minutes cost nothing.
	preflightEvery = 2 * time.Minute
	// preflightTimeout bounds one look; whoever asks has other things to do.
	preflightTimeout = 5 * time.Second
)

// Preflight looks at Liqo in this cluster every now and then. It is for one caller at a
// time.
type Preflight struct {
	observe func(context.Context) (Installation, error)
	clock   clock.PassiveClock
	next    time.Time
	last    metav1.Condition
}

// NewPreflight looks at the Liqo of a namespace, through the API server and without a
// cache.
func NewPreflight(server rest.Interface, reader client.Reader, namespace string, c clock.PassiveClock) *Preflight {
	return &Preflight{clock: c, observe: func(ctx context.Context) (Installation, error) {
		return ObserveInstallation(ctx, server, reader, namespace)
	}}
}

// Condition says how Liqo is. While the API server does not answer, what was seen before
// holds.
func (p *Preflight) Condition(ctx context.Context) metav1.Condition {
	now := p.clock.Now()
	if now.Before(p.next) {
		return p.last
	}
	p.next = now.Add(preflightEvery)
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	seen, err := p.observe(ctx)
	switch {
	case err == nil:
		p.last = seen.Judge().Condition()
	case p.last.Type == "":
		p.last = Verdict{Status: metav1.ConditionUnknown, Reason: agentv1alpha1.ReasonLiqoHidden, Message: "Liqo could not be looked at: " + err.Error()}.Condition()
	}
	return p.last
}
