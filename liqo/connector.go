package liqo

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConnectorOptions of a Connector.
type ConnectorOptions struct {
	// ClusterID of this cluster.
	ClusterID string
	// LiqoNamespace is where Liqo keeps the networks of this cluster and its templates.
	LiqoNamespace string
	// Service is the type of the Service through which other clusters reach this one's
	// gateway. Networks are not connected if it is empty.
	Service corev1.ServiceType
	// Client reads from a cache, Reader from the API server.
	Client client.Client
	Reader client.Reader

	Mailbox *mailbox
	// Message returns the Send for one step of a pair.
	Message func(Pair, Step, []byte) Send
	Outbox  *Outbox
	Clock   clock.PassiveClock
}

// Connector connects the networks of this cluster and its peers through Liqo's gateways.
type Connector struct {
	opts ConnectorOptions

	mu sync.Mutex // guards the following
	// said is what this cluster last said of its network, by pair.
	said map[Pair]said
	// networks are those of this cluster, as Liqo's IPAM last had them.
	networks ownNetworks
}

// NewConnector returns a Connector; it needs all options but Service.
func NewConnector(o ConnectorOptions) *Connector {
	return &Connector{opts: o, said: map[Pair]said{}}
}

// IsOn reports whether this cluster connects networks at all.
func (c *Connector) IsOn() bool { return c.opts.Service != "" }

// Forget drops what was said to a peer.
func (c *Connector) Forget(pair Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.said, pair)
}

// Apply carries out one action of a plan. It reports false for an action that is none of a
// network's.
func (c *Connector) Apply(ctx context.Context, s *Scene, verb Verb) (known bool, err error) {
	apply, known := applies[verb]
	if !known {
		return false, nil
	}
	return true, apply(c, ctx, s)
}

// Remove deletes the gateways, or the record of the peer's networks, that the agent made.
func (c *Connector) Remove(ctx context.Context, verb Verb, peer string) error {
	if verb == DeleteConfiguration {
		return removeOurs(ctx, c.opts.Reader, c.opts.Client, configurationKind, peer)
	}
	return errors.Join(
		removeOurs(ctx, c.opts.Reader, c.opts.Client, gatewayClientKind, peer),
		removeOurs(ctx, c.opts.Reader, c.opts.Client, gatewayServerKind, peer))
}
