package installation

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

const (
	// preflightEvery is how long an observation of Liqo is used. While it lasts, a cluster whose
	// Liqo has stopped may still be chosen, and one whose Liqo is back is not. Four reads in this
	// time are cheap.
	preflightEvery = 20 * time.Second
	// preflightTimeout bounds one observation, because the caller has other work.
	preflightTimeout = 5 * time.Second
)

// Preflight checks Liqo in this cluster at intervals.
type Preflight struct {
	observe func(context.Context) (Installation, error)
	clock   clock.PassiveClock

	// mu guards the fields below.
	mu sync.Mutex
	// next is when Liqo is observed again.
	next time.Time
	// last is the newest observation.
	last metav1.Condition
}

// NewPreflight returns a Preflight for the Liqo in a namespace. It reads from the API server,
// without a cache.
func NewPreflight(server rest.Interface, reader client.Reader, namespace string, c clock.PassiveClock) *Preflight {
	return &Preflight{clock: c, observe: func(ctx context.Context) (Installation, error) {
		return ObserveInstallation(ctx, server, reader, namespace)
	}}
}

// Condition returns the state of Liqo. While the API server does not answer, it returns the last
// observation.
func (p *Preflight) Condition(ctx context.Context) *metav1.Condition {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.observeDue(ctx)
	return &last
}

func (p *Preflight) observeDue(ctx context.Context) metav1.Condition {
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
		p.last = Verdict{Status: metav1.ConditionUnknown, Reason: agentv1alpha1.ReasonLiqoHidden, Message: "Liqo could not be inspected: " + err.Error()}.Condition()
	}
	return p.last
}
