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
	// preflightEvery is how long an observation of Liqo is reused. During this time, the broker may
	// still choose a cluster whose Liqo has just stopped, and does not choose one whose Liqo has
	// just started. One observation costs four reads.
	preflightEvery = 20 * time.Second
	// preflightTimeout limits the time of one observation, because the caller waits for it.
	preflightTimeout = 5 * time.Second
)

// Preflight checks at intervals whether Liqo in this cluster can be used.
type Preflight struct {
	observe func(context.Context) (Installation, error)
	clock   clock.PassiveClock

	// mu guards the fields below.
	mu sync.Mutex
	// next is when Liqo must be observed again.
	next time.Time
	// last is the condition that follows from the newest observation.
	last metav1.Condition
}

// NewPreflight returns a Preflight for Liqo in the given namespace. It reads Liqo's Deployments and
// settings from the API server, and the objects of peerings from the cache.
func NewPreflight(server rest.Interface, reader, cache client.Reader, namespace string, c clock.PassiveClock) *Preflight {
	return &Preflight{clock: c, observe: func(ctx context.Context) (seen Installation, err error) {
		if seen, err = ObserveInstallation(ctx, server, reader, namespace); err != nil {
			return seen, err
		}
		seen.Neglected, err = findNeglected(ctx, cache, c.Now())
		return seen, err
	}}
}

// Condition returns the condition LiqoReady. It observes Liqo if the last observation is too old.
// If the observation fails, it returns the last known condition or, if there is none, one with the
// status Unknown.
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
