package liqo

import (
	"context"
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
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// Options configure a Peering. ClusterID, both namespaces, Client, Reader, Messenger, Sign, Verify,
// Outbox and Clock are required.
type Options struct {
	// ClusterID is the ID of this cluster, for the broker and for Liqo.
	ClusterID string
	// InstructionNamespace holds the instructions of this cluster.
	InstructionNamespace string
	// LiqoNamespace is where Liqo is installed. It holds the key pair of this cluster's Liqo.
	LiqoNamespace string
	// Client reads from a cache. Reader reads from the API server.
	Client client.Client
	Reader client.Reader

	// Remote returns a client for the cluster of a provider that has no agent; its error says what
	// is missing. With this client, the agent here also does the provider's part of the peering.
	// Remote may be nil; then no such provider can be used.
	Remote func(provider string) (client.Client, error)
	// Unaccepted returns how many pods were bound to a virtual node before the given time and
	// still have no copy at the provider, and the name of one of them. It may be nil.
	// Unplaced returns the same for the pods that no node of the provider can take. Runs reports
	// whether a pod on a virtual node has a node at the provider. All or none are set.
	Unaccepted, Unplaced func(nodeName string, before time.Time) (count int, pod string)
	Runs                 func(nodeName string) bool

	// CheckEndpoint returns an error for an API server that this cluster must not connect to;
	// nil allows all. Proxies are the proxies through which this cluster may connect if a
	// provider demands it.
	CheckEndpoint func(ctx context.Context, endpoint string) error
	Proxies       []string

	// GatewayService is the type of the Service through which other clusters reach this
	// cluster's gateway. If it is empty, the agent does not connect networks.
	GatewayService corev1.ServiceType

	// GuardElsewhere extends the check of certificates to tenant namespaces that the agent did not make.
	GuardElsewhere bool

	Messenger handshake.Messenger
	Sign      handshake.Signer
	Verify    handshake.Verifier
	// ReclaimAfter is how long a consumer may take to return an ended placement. After that, this
	// cluster, as the provider, removes the consumer's pods and objects itself. 0 means no limit.
	ReclaimAfter time.Duration
	// GiveUpAfter is how long this cluster, as the consumer, waits for an unreachable provider
	// while it removes an ended placement. 0 means no limit.
	GiveUpAfter time.Duration
	// Outbox sends the messages. The caller of New starts it.
	Outbox *outbox.Outbox
	Clock  clock.PassiveClock
	Log    logr.Logger

	// DrainTimeout is how long pods are evicted from the virtual node of an ended placement; 0 for not at all. The
	// pods that are left after that are deleted with their grace period.
	DrainTimeout time.Duration

	// ObserveStep is called with the duration of each finished step of a handshake at this side. It may be nil.
	ObserveStep func(step plan.HandshakeStep, took time.Duration)
}

// Peering carries out plans in this cluster, both as a consumer and as a provider. At most one
// goroutine at a time may call the consumer's methods (Consume, DepartConsumer), and at most one
// the provider's (Provide, DepartProvider).
type Peering struct {
	*guard.Guard
	opts    Options
	mailbox *handshake.Mailbox
	// drainer and reflections have no lock; only the goroutine that calls Consume uses them.
	// reflections holds what refusalsOf has read.
	drainer     *drain.Drainer
	reflections map[string]reflections
	network     *network.Connector
	steps       *stopwatch

	// departing is held while an ended instruction is served or deleted. If two instructions for a
	// peer ended at the same time, each could otherwise see the other one and leave the removal of
	// the peering to the other one.
	departing sync.Mutex

	mu      sync.Mutex // guards the fields below
	answers map[handshake.Pair]answered
	key     *handshake.ClusterKey
	// deputies are those of the providers without an agent, by cluster ID.
	deputies map[string]*deputy
	// verdicts holds the result of the last check of each provider's API server, by cluster ID.
	verdicts map[string]serverVerdict
}

// answered caches the answer to a challenge. question consists of the challenge's digest and
// this cluster's public key.
type answered struct {
	question string
	payload  []byte
	digest   string
}

// New returns a Peering.
func New(o Options) *Peering {
	p := &Peering{opts: o, mailbox: handshake.NewMailbox(o.ClusterID, o.Verify), answers: map[handshake.Pair]answered{}, drainer: drain.New(o.Client, o.Reader, o.Clock, o.DrainTimeout), steps: newStopwatch(o.ObserveStep), reflections: map[string]reflections{}, deputies: map[string]*deputy{}, verdicts: map[string]serverVerdict{}}
	p.Guard = guard.New(guard.Options{
		ClusterID: o.ClusterID, InstructionNamespace: o.InstructionNamespace, Client: o.Client, Reader: o.Reader,
		Elsewhere: o.GuardElsewhere, Clock: o.Clock, Log: o.Log,
	})
	p.network = network.New(network.Options{
		ClusterID: o.ClusterID, LiqoNamespace: o.LiqoNamespace, Service: o.GatewayService, Client: o.Client, Reader: o.Reader,
		Mailbox: p.mailbox, Message: p.messageSend, Outbox: o.Outbox, Clock: o.Clock,
	})
	return p
}

// Deliver accepts an envelope of another cluster. from is the cluster that, according to the
// broker, has sent it. Deliver only checks and stores the message and wakes the controllers, so
// it returns quickly. An error means that the envelope was refused; callers log it.
func (p *Peering) Deliver(ctx context.Context, from string, envelope []byte) error {
	return p.mailbox.Deliver(ctx, from, envelope)
}

// ConsumerEvents returns the channel with events for the controller that calls Consume. Each
// event is the ID of a provider that sent a message.
func (p *Peering) ConsumerEvents() <-chan event.TypedGenericEvent[string] {
	return p.mailbox.ConsumerEvents()
}

// ProviderEvents returns the channel with events for the controller that calls Provide. Each
// event is the ID of a consumer that sent a message.
func (p *Peering) ProviderEvents() <-chan event.TypedGenericEvent[string] {
	return p.mailbox.ProviderEvents()
}

// messageSend passes the payload to the deputy of a provider without an agent.
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

// endHandshake lets messages about the networks of the pair continue.
func (p *Peering) endHandshake(pair handshake.Pair) {
	p.dropSteps(pair, handshake.HandshakeSteps)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.answers, pair)
}

// forgetPair stops all messages of a pair and drops everything that is kept in memory about it.
func (p *Peering) forgetPair(pair handshake.Pair) {
	p.endHandshake(pair)
	p.dropSteps(pair, handshake.NetworkSteps)
	p.network.Forget(pair)
	p.steps.forgetPair(pair)
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

// Tunnel returns the round-trip time to a cluster through Liqo's gateways, or the reason why the
// gateways cannot reach it. known is false if neither is known.
func (p *Peering) Tunnel(ctx context.Context, cluster string) (roundTrip time.Duration, why string, known bool) {
	return p.network.Tunnel(ctx, cluster)
}
