package network

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// Options of a Connector.
type Options struct {
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

	Mailbox *handshake.Mailbox
	// Message returns the Send for one step of a pair.
	Message func(handshake.Pair, handshake.Step, []byte) outbox.Send
	Outbox  *outbox.Outbox
	Clock   clock.PassiveClock
}

// Connector connects the networks of this cluster and its peers through Liqo's gateways.
type Connector struct {
	opts Options

	mu sync.Mutex // guards the following
	// said is what this cluster last said of its network, by pair.
	said map[handshake.Pair]said
	// networks are those of this cluster, as Liqo's IPAM last had them.
	networks ownNetworks
}

// New returns a Connector; it needs all options but Service.
func New(o Options) *Connector {
	return &Connector{opts: o, said: map[handshake.Pair]said{}}
}

// IsOn reports whether this cluster connects networks at all.
func (c *Connector) IsOn() bool { return c.opts.Service != "" }

// Forget drops what was said to a peer.
func (c *Connector) Forget(pair handshake.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.said, pair)
}

// Apply carries out one action of a plan. It reports false for an action that is none of a
// network's.
func (c *Connector) Apply(ctx context.Context, s *Scene, verb plan.Verb) (known bool, err error) {
	apply, known := applies[verb]
	if !known {
		return false, nil
	}
	return true, apply(c, ctx, s)
}

// Remove deletes the gateways, or the record of the peer's networks, that the agent made.
func (c *Connector) Remove(ctx context.Context, verb plan.Verb, peer string) error {
	if verb == plan.DeleteConfiguration {
		return object.DeleteOurs(ctx, c.opts.Reader, c.opts.Client, configurationKind, peer)
	}
	return errors.Join(
		object.DeleteOurs(ctx, c.opts.Reader, c.opts.Client, gatewayClientKind, peer),
		object.DeleteOurs(ctx, c.opts.Reader, c.opts.Client, gatewayServerKind, peer))
}
