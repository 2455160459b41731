package access

import (
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Gate holds the policy in force, and whom it let in. Until a policy was set nobody
// is let in: a broker that does not know yet whom it must refuse refuses everyone.
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

// NewGate makes a gate that is shut.
func NewGate() *Gate { return &Gate{guests: map[*guest]struct{}{}} }

// Set puts a policy in force, and tells everyone inside whom it no longer admits,
// each once, before it returns.
func (g *Gate) Set(p Policy) {
	for leaving, why := range g.replace(p) {
		leaving.shut(why)
	}
}

func (g *Gate) replace(p Policy) map[*guest]error {
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

// Policy is the one in force; an error with reason Unavailable while there is none.
func (g *Gate) Policy() (Policy, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known {
		return Policy{}, errUnknown()
	}
	return g.policy, nil
}

// Limits are those of the policy in force.
func (g *Gate) Limits() Limits {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.policy.Limits
}

// Check is that of the policy in force.
func (g *Gate) Check(clusterID string) error {
	p, err := g.Policy()
	if err != nil {
		return err
	}
	return p.Check(clusterID)
}

// Enter lets a cluster in until leave is called. shut is called from another
// goroutine if a later policy does not admit it; it must not wait for anything.
func (g *Gate) Enter(clusterID string, shut func(error)) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known {
		return nil, errUnknown()
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

func errUnknown() *fault.Error {
	e := fault.New(fault.Unavailable, "the broker has not read its configuration yet: try again")
	e.RetryAfter = time.Second
	return e
}
