package liqo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/drain"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/network"
)

// Options of a Peering. All but LiqoNamespace, Remote, CheckEndpoint, Proxies, GatewayService, Clock, Log and DrainTimeout are required.
type Options struct {
	// ClusterID of this cluster, the same as Liqo's.
	ClusterID string
	// InstructionNamespace holds the instructions.
	InstructionNamespace string
	// LiqoNamespace is where Liqo keeps this cluster's key pair; "liqo" if empty.
	LiqoNamespace string
	// Client reads from a cache, Reader from the API server.
	Client client.Client
	Reader client.Reader

	// Remote returns a client of a provider's cluster with whose rights this agent does
	// the part of a provider that no agent speaks for; an error that says what is missing
	// where there is none. It is nil where this agent does no such thing.
	Remote func(provider string) (client.Client, error)
	// Rejected counts the pods on a virtual node that the provider does not take; nil if
	// nobody counts them.
	Rejected func(nodeName string) int

	// CheckEndpoint refuses an API server that this cluster must not connect to; nil allows
	// all. Proxies are the proxies through which providers may have it connect.
	CheckEndpoint func(ctx context.Context, endpoint string) error
	Proxies       []string

	// GatewayService is the type of the Service through which other clusters reach this
	// one's gateway, where networks are connected through Liqo; they are not if it is empty.
	GatewayService corev1.ServiceType

	// GuardElsewhere has identities signed for reservations alone in tenant namespaces that
	// the agent did not make, too.
	GuardElsewhere bool

	Messenger handshake.Messenger
	Sign      handshake.Signer
	Verify    handshake.Verifier
	// ReclaimAfter is how long a consumer may take to give back what has ended, before
	// this cluster takes it; 0 for as long as it likes.
	ReclaimAfter time.Duration
	// GiveUpAfter is how long this cluster waits for a provider that does not answer to
	// take down what has ended; 0 for as long as it takes.
	GiveUpAfter time.Duration
	// Outbox sends; whoever makes it starts it.
	Outbox *outbox.Outbox
	Clock  clock.PassiveClock
	Log    logr.Logger

	// DrainTimeout is how long the pods on the virtual node of a placement that has ended
	// are evicted; the rest is deleted, with the grace period of each. Zero for at once.
	DrainTimeout time.Duration
}

func (o *Options) complete() error {
	switch {
	case o.ClusterID == "":
		return errors.New("peering: no cluster ID")
	case o.InstructionNamespace == "":
		return errors.New("peering: no instruction namespace")
	case o.Client == nil || o.Reader == nil:
		return errors.New("peering: no client or no reader")
	case o.Messenger == nil || o.Sign == nil || o.Verify == nil || o.Outbox == nil:
		return errors.New("peering: no way to send or to check messages")
	}
	if o.LiqoNamespace == "" {
		o.LiqoNamespace = "liqo"
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return nil
}

// Peering carries out plans in this cluster, on both sides of the peerings it
// takes part in. Its methods for one side are called by one goroutine at a time.
type Peering struct {
	*guard.Guard
	opts    Options
	mailbox *handshake.Mailbox
	// drainer is used by the consumer's goroutine alone.
	drainer *drain.Drainer
	network *network.Connector

	// departing lets one instruction at a time find out whether it is the last of
	// its peer: two that leave together would each rely on the other.
	departing sync.Mutex

	mu      sync.Mutex // guards the following
	answers map[handshake.Pair]answered
	key     *handshake.ClusterKey
	// deputies by the provider whose part they do.
	deputies map[string]*deputy
	// verdicts on the API servers that providers named last.
	verdicts map[string]serverVerdict
}

// answered is what was computed from a question: a challenge and this cluster's key.
type answered struct {
	question string
	payload  []byte
	digest   string
}

// New checks the options.
func New(o Options) (*Peering, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	p := &Peering{opts: o, mailbox: handshake.NewMailbox(o.ClusterID, o.Verify), answers: map[handshake.Pair]answered{}, drainer: drain.New(o.Client, o.Reader, o.Clock, o.DrainTimeout), deputies: map[string]*deputy{}, verdicts: map[string]serverVerdict{}}
	p.Guard = guard.New(guard.Options{
		InstructionNamespace: o.InstructionNamespace, Client: o.Client, Reader: o.Reader,
		Elsewhere: o.GuardElsewhere, Clock: o.Clock, Log: o.Log,
	})
	p.network = network.New(network.Options{
		ClusterID: o.ClusterID, LiqoNamespace: o.LiqoNamespace, Service: o.GatewayService, Client: o.Client, Reader: o.Reader,
		Mailbox: p.mailbox, Message: p.message, Outbox: o.Outbox, Clock: o.Clock,
	})
	return p, nil
}

// Deliver takes an envelope that the broker says came from the cluster from. It is
// cheap: the envelope is checked and kept, and the controllers are woken. An error
// means that it was refused; it is for the log.
func (p *Peering) Deliver(ctx context.Context, from string, envelope []byte) error {
	return p.mailbox.Deliver(ctx, from, envelope)
}

// ConsumerEvents carries the ID of each provider that a message came from.
func (p *Peering) ConsumerEvents() <-chan event.TypedGenericEvent[string] {
	return p.mailbox.ConsumerEvents()
}

// ProviderEvents carries the ID of each consumer that a message came from.
func (p *Peering) ProviderEvents() <-chan event.TypedGenericEvent[string] {
	return p.mailbox.ProviderEvents()
}

// message returns the Send for a step.
func (p *Peering) message(pair handshake.Pair, s handshake.Step, payload []byte) outbox.Send {
	return func(ctx context.Context) error {
		if d := p.deputyOf(pair.Receiver(s)); d != nil {
			return d.hear(ctx, payload)
		}
		envelope, err := p.opts.Sign(payload)
		if err != nil {
			return fmt.Errorf("sign message %d of %q and %q: %w", s, pair.Consumer, pair.Provider, err)
		}
		err = p.opts.Messenger.SendMessage(ctx, &v1.Message{To: pair.Receiver(s), Slot: pair.Slot(s), Body: envelope})
		if err != nil {
			p.opts.Log.V(1).Info("peering message not taken, will be repeated", "to", pair.Receiver(s), "step", s, "error", err.Error())
		}
		return err
	}
}

// settled ends the handshake of a pair. What crosses of their networks goes on.
func (p *Peering) settled(pair handshake.Pair) {
	p.drop(pair, handshake.HandshakeSteps)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.answers, pair)
	delete(p.deputies, pair.Provider)
}

// forget drops all that is known of a pair.
func (p *Peering) forget(pair handshake.Pair) {
	p.settled(pair)
	p.drop(pair, handshake.NetworkSteps)
	p.network.Forget(pair)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.verdicts, pair.Provider)
}

func (p *Peering) drop(pair handshake.Pair, steps []handshake.Step) {
	p.mailbox.Forget(pair, steps)
	for _, s := range steps {
		p.opts.Outbox.Drop(pair.Posting(s))
	}
}

// Tunnel returns the round trip to a cluster through Liqo's gateways, or why it cannot be
// reached; known is false while the gateways report neither.
func (p *Peering) Tunnel(ctx context.Context, cluster string) (roundTrip time.Duration, why string, known bool) {
	return p.network.Tunnel(ctx, cluster)
}
