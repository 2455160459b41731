// Package network connects the networks of two clusters through Liqo's gateways.
//
// Each side sends the other its CIDRs, the address of its gateway and its public key, after every
// change. A Connector observes the connection and carries out the actions of a plan.
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
	ClusterID string
	// LiqoNamespace is that of Liqo, with its gateway templates and its record of this cluster's networks.
	LiqoNamespace string
	// Service is the type of the Service through which other clusters reach this cluster's
	// gateway. If it is empty, the Connector does not connect networks.
	Service corev1.ServiceType
	// Client reads from a cache. Reader reads from the API server.
	Client client.Client
	Reader client.Reader

	Mailbox *handshake.Mailbox
	// Message returns a function that sends a message to the peer. The arguments are the pair of
	// clusters, the step of the handshake, and the payload.
	Message func(handshake.Pair, handshake.Step, []byte) outbox.Send
	Outbox  *outbox.Outbox
	Clock   clock.PassiveClock
}

// Connector connects the networks of this cluster and its peers through Liqo's gateways.
type Connector struct {
	opts Options

	mu sync.Mutex // guards the fields below
	// sent holds, for each pair, the description of this cluster's network that was sent last.
	sent map[handshake.Pair]sentMessage
	// networks is the copy of this cluster's CIDRs, as last read from Liqo's IPAM.
	networks ownNetworks
}

// New returns a Connector. All options except Service are required.
func New(o Options) *Connector {
	return &Connector{opts: o, sent: map[handshake.Pair]sentMessage{}}
}

// IsOn reports whether this cluster connects networks at all.
func (c *Connector) IsOn() bool { return c.opts.Service != "" }

// Forget drops the record of the last message to a peer, so that the next message counts as new
// even if its content is the same.
func (c *Connector) Forget(pair handshake.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sent, pair)
}

// Apply carries out one action of a plan. known is false if the verb does not concern a
// network.
func (c *Connector) Apply(ctx context.Context, s *Scene, verb plan.Verb) (known bool, err error) {
	apply, known := applyFuncs[verb]
	if !known {
		return false, nil
	}
	return true, apply(c, ctx, s)
}

// Remove deletes objects that the agent made for a peer: the Configuration if verb is
// DeleteConfiguration, the gateways otherwise.
func (c *Connector) Remove(ctx context.Context, verb plan.Verb, peer string) error {
	if verb == plan.DeleteConfiguration {
		return object.DeleteOurs(ctx, c.opts.Reader, c.opts.Client, configurationKind, peer)
	}
	return errors.Join(
		object.DeleteOurs(ctx, c.opts.Reader, c.opts.Client, gatewayClientKind, peer),
		object.DeleteOurs(ctx, c.opts.Reader, c.opts.Client, gatewayServerKind, peer))
}
