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

// Options configure a Connector.
type Options struct {
	// ClusterID is the ID of this cluster.
	ClusterID string
	// LiqoNamespace holds Liqo's templates and its record of this cluster's networks.
	LiqoNamespace string
	// Service is the type of the Service through which other clusters reach this cluster's
	// gateway. If it is empty, networks are not connected.
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
	// sent holds this cluster's latest description of its network, by pair.
	sent map[handshake.Pair]sentMessage
	// networks are this cluster's networks, as last read from Liqo's IPAM.
	networks ownNetworks
}

// New returns a Connector; it needs all options but Service.
func New(o Options) *Connector {
	return &Connector{opts: o, sent: map[handshake.Pair]sentMessage{}}
}

// IsOn reports whether this cluster connects networks at all.
func (c *Connector) IsOn() bool { return c.opts.Service != "" }

// Forget drops the description that was sent for a pair.
func (c *Connector) Forget(pair handshake.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sent, pair)
}

// Apply carries out one action of a plan. known is false if the action is not about a network.
func (c *Connector) Apply(ctx context.Context, s *Scene, verb plan.Verb) (known bool, err error) {
	apply, known := applyFuncs[verb]
	if !known {
		return false, nil
	}
	return true, apply(c, ctx, s)
}

// Remove deletes the gateways, or the Configuration, that the agent made for a peer.
func (c *Connector) Remove(ctx context.Context, verb plan.Verb, peer string) error {
	if verb == plan.DeleteConfiguration {
		return object.DeleteOurs(ctx, c.opts.Reader, c.opts.Client, configurationKind, peer)
	}
	return errors.Join(
		object.DeleteOurs(ctx, c.opts.Reader, c.opts.Client, gatewayClientKind, peer),
		object.DeleteOurs(ctx, c.opts.Reader, c.opts.Client, gatewayServerKind, peer))
}
