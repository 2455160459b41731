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

// Options configure a Peering. LiqoNamespace, Remote, Unaccepted, CheckEndpoint, Proxies,
// GatewayService, GuardElsewhere, ReclaimAfter, GiveUpAfter, Clock, Log and DrainTimeout are
// optional.
type Options struct {
	// ClusterID is the ID of this cluster, in Liqo, too.
	ClusterID string
	// InstructionNamespace holds the instructions.
	InstructionNamespace string
	// LiqoNamespace holds the key pair of this cluster's Liqo; "liqo" if empty.
	LiqoNamespace string
	// Client reads from a cache, Reader from the API server.
	Client client.Client
	Reader client.Reader

	// Remote returns a client of the cluster of a provider without an agent. With that
	// client's rights, this agent does the provider's part. The error says what is missing.
	// If Remote is nil, this agent does not do the provider's part.
	Remote func(provider string) (client.Client, error)
	// Unaccepted counts the pods that were bound to a virtual node before an instant and have no
	// copy at the provider, and names one of them. It may be nil.
	Unaccepted func(nodeName string, before time.Time) (count int, pod string)

	// CheckEndpoint refuses an API server that this cluster must not connect to; nil allows
	// all. Proxies are the proxies that providers may ask this cluster to use.
	CheckEndpoint func(ctx context.Context, endpoint string) error
	Proxies       []string

	// GatewayService is the type of the Service through which other clusters reach this
	// cluster's gateway. If it is empty, the agent does not connect networks.
	GatewayService corev1.ServiceType

	// GuardElsewhere extends the guard to tenant namespaces that the agent did not make:
	// identities there are signed only for reservations.
	GuardElsewhere bool

	Messenger handshake.Messenger
	Sign      handshake.Signer
	Verify    handshake.Verifier
	// ReclaimAfter is how long a consumer may take to return an ended placement. After that,
	// this cluster reclaims it. 0 means no limit.
	ReclaimAfter time.Duration
	// GiveUpAfter is how long this cluster waits for an unreachable provider while it removes
	// an ended placement. 0 means no limit.
	GiveUpAfter time.Duration
	// Outbox sends the messages. Its creator starts it.
	Outbox *outbox.Outbox
	Clock  clock.PassiveClock
	Log    logr.Logger

	// DrainTimeout is how long pods are evicted from the virtual node of an ended placement.
	// After that, the remaining pods are deleted with their grace period. Zero deletes them
	// at once.
	DrainTimeout time.Duration
}

func (o *Options) completeOptions() error {
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

// Peering carries out plans in this cluster, on both sides of its peerings. At most one
// goroutine at a time may call the methods of one side.
type Peering struct {
	*guard.Guard
	opts    Options
	mailbox *handshake.Mailbox
	// drainer is used only by the consumer's goroutine.
	drainer *drain.Drainer
	network *network.Connector

	// departing serializes the check whether an instruction is the last one for its peer. Two
	// instructions that leave together would otherwise each rely on the other.
	departing sync.Mutex

	mu      sync.Mutex // guards the following
	answers map[handshake.Pair]answered
	key     *handshake.ClusterKey
	// deputies holds the deputy of each provider without an agent.
	deputies map[string]*deputy
	// verdicts holds the last check of each provider's API server.
	verdicts map[string]serverVerdict
}

// answered caches the answer to a question: a challenge and this cluster's key.
type answered struct {
	question string
	payload  []byte
	digest   string
}

// New returns a Peering, or an error if a required option is missing.
func New(o Options) (*Peering, error) {
	if err := o.completeOptions(); err != nil {
		return nil, err
	}
	p := &Peering{opts: o, mailbox: handshake.NewMailbox(o.ClusterID, o.Verify), answers: map[handshake.Pair]answered{}, drainer: drain.New(o.Client, o.Reader, o.Clock, o.DrainTimeout), deputies: map[string]*deputy{}, verdicts: map[string]serverVerdict{}}
	p.Guard = guard.New(guard.Options{
		InstructionNamespace: o.InstructionNamespace, Client: o.Client, Reader: o.Reader,
		Elsewhere: o.GuardElsewhere, Clock: o.Clock, Log: o.Log,
	})
	p.network = network.New(network.Options{
		ClusterID: o.ClusterID, LiqoNamespace: o.LiqoNamespace, Service: o.GatewayService, Client: o.Client, Reader: o.Reader,
		Mailbox: p.mailbox, Message: p.messageSend, Outbox: o.Outbox, Clock: o.Clock,
	})
	return p, nil
}

// Deliver takes an envelope that the broker attributes to the cluster from. It only checks
// and stores the envelope and wakes the controllers, so it is cheap. An error means that the
// envelope was refused; callers log it.
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

// messageSend returns the Send that delivers the payload of a step.
func (p *Peering) messageSend(pair handshake.Pair, s handshake.Step, payload []byte) outbox.Send {
	return func(ctx context.Context) error {
		if d := p.deputyOf(pair.Receiver(s)); d != nil {
			return d.receiveMessage(ctx, payload)
		}
		envelope, err := p.opts.Sign(payload)
		if err != nil {
			return fmt.Errorf("sign message %d of %q and %q: %w", s, pair.Consumer, pair.Provider, err)
		}
		err = p.opts.Messenger.SendMessage(ctx, &v1.Message{To: pair.Receiver(s), Slot: pair.Slot(s), Body: envelope})
		if err != nil {
			p.opts.Log.V(1).Info("peering message not accepted, retrying", "to", pair.Receiver(s), "step", s, "error", err.Error())
		}
		return err
	}
}

// endHandshake ends the handshake of a pair. Messages about their networks continue.
func (p *Peering) endHandshake(pair handshake.Pair) {
	p.dropSteps(pair, handshake.HandshakeSteps)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.answers, pair)
}

// forgetPair drops everything that is known about a pair.
func (p *Peering) forgetPair(pair handshake.Pair) {
	p.endHandshake(pair)
	p.dropSteps(pair, handshake.NetworkSteps)
	p.network.Forget(pair)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.verdicts, pair.Provider)
}

func (p *Peering) dropSteps(pair handshake.Pair, steps []handshake.Step) {
	p.mailbox.Forget(pair, steps)
	for _, s := range steps {
		p.opts.Outbox.Drop(pair.Posting(s))
	}
}

// Tunnel returns the round-trip time to a cluster through Liqo's gateways, or why the cluster
// cannot be reached; known is false if the gateways report neither.
func (p *Peering) Tunnel(ctx context.Context, cluster string) (roundTrip time.Duration, why string, known bool) {
	return p.network.Tunnel(ctx, cluster)
}
