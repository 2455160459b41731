package access

import (
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Gate decides with the policy in force whether a cluster may use the broker, and knows the open
// connections of the clusters that it admitted. Before the first call of Set it refuses every cluster,
// because a broker that has not read its configuration cannot tell which clusters to refuse.
type Gate struct {
	// mu guards the fields below.
	mu     sync.Mutex
	known  bool
	policy Policy
	guests map[*guest]struct{}
}

// guest is an open connection of an admitted cluster. shut closes it.
type guest struct {
	clusterID string
	shut      func(error)
}

// NewGate returns a Gate that refuses every cluster until Set is called.
func NewGate() *Gate { return &Gate{guests: map[*guest]struct{}{}} }

// Set puts a policy in force. Before it returns, it calls shut for every connection that the new
// policy does not admit.
func (g *Gate) Set(p Policy) {
	for leaving, why := range g.replacePolicy(p) {
		leaving.shut(why)
	}
}

// replacePolicy puts a policy in force. It returns the connections that the policy does not admit,
// each with the reason, and forgets them.
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

// Policy returns the policy in force. Before the first call of Set it returns an error with reason
// Unavailable.
func (g *Gate) Policy() (Policy, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.known {
		return Policy{}, newUnknownPolicyError()
	}
	return g.policy, nil
}

// Limits returns the limits of the policy in force; zero limits before the first call of Set.
func (g *Gate) Limits() Limits {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.policy.Limits
}

// Check returns nil if the policy in force admits the cluster, and otherwise an error with the reason.
func (g *Gate) Check(clusterID string) error {
	p, err := g.Policy()
	if err != nil {
		return err
	}
	return p.Check(clusterID)
}

// Enter registers a connection of a cluster, if the policy admits the cluster. The caller calls leave
// when the connection ends. If a later policy does not admit the cluster, the Gate calls shut, from
// another goroutine; shut must not block.
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
	return fault.New(fault.Unavailable, "the broker has not read its configuration yet: try again").RetryIn(time.Second)
}
