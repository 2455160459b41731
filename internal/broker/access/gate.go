package access

import (
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Gate holds the policy in force and the connections it admitted. Until the first Set it
// refuses everyone: a broker that has not read its configuration cannot tell which clusters to refuse.
type Gate struct {
	// mu guards the following.
	mu     sync.Mutex
	known  bool
	policy Policy
	guests map[*guest]struct{}
}

type guest struct {
	clusterID string
	shut      func(error)
}

// NewGate returns a gate that refuses everyone until Set is called.
func NewGate() *Gate { return &Gate{guests: map[*guest]struct{}{}} }

// Set puts a policy in force. Before it returns, it calls shut once for every connection that
// the policy no longer admits.
func (g *Gate) Set(p Policy) {
	for leaving, why := range g.replacePolicy(p) {
		leaving.shut(why)
	}
}

func (g *Gate) replacePolicy(p Policy) map[*guest]error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known, g.policy = true, p
	leaving := map[*guest]error{}
	for each := range g.guests {
		if err := p.Check(each.clusterID); err != nil {
			leaving[each] = err
			delete(g.guests, each)
		}
	}
	return leaving
}

// Policy returns the policy in force, or an error with reason Unavailable before the first Set.
func (g *Gate) Policy() (Policy, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known {
		return Policy{}, newUnknownPolicyError()
	}
	return g.policy, nil
}

// Limits returns the limits of the policy in force.
func (g *Gate) Limits() Limits {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.policy.Limits
}

// Check applies the policy in force to a cluster.
func (g *Gate) Check(clusterID string) error {
	p, err := g.Policy()
	if err != nil {
		return err
	}
	return p.Check(clusterID)
}

// Enter admits a cluster's connection until leave is called. If a later policy rejects the
// cluster, shut is called from another goroutine; it must not block.
func (g *Gate) Enter(clusterID string, shut func(error)) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known {
		return nil, newUnknownPolicyError()
	}
	if err := g.policy.Check(clusterID); err != nil {
		return nil, err
	}
	entered := &guest{clusterID, shut}
	g.guests[entered] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.guests, entered)
	}, nil
}

func newUnknownPolicyError() *fault.Error {
	e := fault.New(fault.Unavailable, "the broker has not read its configuration yet: try again")
	e.RetryAfter = time.Second
	return e
}
