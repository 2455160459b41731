package handshake

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/event"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// pendingEvents is how many events may wait for a controller. While that many wait, Deliver
// blocks.
const pendingEvents = 256

// Received is a message that a Mailbox keeps for a step.
type Received struct {
	Message
	Digest string
	// Count is the number of deliveries of this step, so that the receiver can answer each repetition.
	Count int
	// LastEpoch is the Epoch of the message that was delivered last, even if keepsLast kept an earlier
	// one. This cluster's next network message names it in Heard.
	LastEpoch string
}

// Decode unmarshals the body of the message.
func (r *Received) Decode(into any) error {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("peering message %d of %q and %q: %w", r.Step, r.Consumer, r.Provider, err)
	}
	return nil
}

type mailboxKey struct {
	pair Pair
	step Step
}

// Mailbox keeps the newest message of each step for every pair. It may lose messages: their
// senders repeat them until they are answered.
type Mailbox struct {
	self   string
	verify Verifier
	// epoch is a random value that is new after each start of the agent. Messages of peers about
	// their networks must name the epoch, so that the mailbox recognizes old messages.
	epoch string

	consumer, provider chan event.TypedGenericEvent[string]

	mu       sync.Mutex // guards messages
	messages map[mailboxKey]Received
}

// Epoch returns the epoch of this mailbox. This cluster's messages about its network contain the
// epoch. A peer whose message names the epoch has therefore received one of them since this agent
// started.
func (b *Mailbox) Epoch() string { return b.epoch }

// ConsumerEvents returns the channel with events for the consumer's controller. Each event is
// the ID of a provider that sent a message.
func (b *Mailbox) ConsumerEvents() <-chan event.TypedGenericEvent[string] { return b.consumer }

// ProviderEvents returns the channel with events for the provider's controller. Each event is
// the ID of a consumer that sent a message.
func (b *Mailbox) ProviderEvents() <-chan event.TypedGenericEvent[string] { return b.provider }

// WakeConsumer makes the consumer's controller reconcile all placements at a provider.
func (b *Mailbox) WakeConsumer(ctx context.Context, provider string) error {
	return notifyPeer(ctx, b.consumer, provider)
}

// NewMailbox returns an empty mailbox for the cluster self, with a new epoch.
func NewMailbox(self string, verify Verifier) *Mailbox {
	return &Mailbox{
		self: self, verify: verify, epoch: rand.Text(), messages: map[mailboxKey]Received{},
		consumer: make(chan event.TypedGenericEvent[string], pendingEvents),
		provider: make(chan event.TypedGenericEvent[string], pendingEvents),
	}
}

// Deliver checks an envelope, keeps its message and wakes the controller. from is the cluster
// that, according to the broker, has sent it; the signature must be from the same cluster.
func (b *Mailbox) Deliver(ctx context.Context, from string, envelope []byte) error {
	signer, payload, err := b.verify(envelope)
	if err != nil {
		return fmt.Errorf("envelope from %q: %w", from, err)
	}
	if signer != from {
		return fmt.Errorf("envelope from %q: signed by %q", from, signer)
	}
	m, err := b.Take(signer, payload)
	if err != nil {
		return err
	}
	wake := b.consumer
	if b.self == m.Provider {
		wake = b.provider
	}
	return notifyPeer(ctx, wake, from)
}

func notifyPeer(ctx context.Context, wake chan<- event.TypedGenericEvent[string], of string) error {
	select {
	case wake <- event.TypedGenericEvent[string]{Object: of}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Take keeps the message in a payload whose signature by signer was already checked. It does
// not wake a controller.
func (b *Mailbox) Take(signer string, payload []byte) (*Message, error) {
	m, err := decodeMessage(payload, signer, b.self)
	if err != nil {
		return nil, err
	}
	b.keepMessage(*m, digestOf(payload))
	return m, nil
}

func (b *Mailbox) keepMessage(m Message, digest string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := mailboxKey{m.clusterPair(), m.Step}
	next, last := Received{Message: m, Digest: digest}, b.messages[key]
	if b.keepsLast(&last.Message, &m) {
		next = last
	}
	next.Count, next.LastEpoch = last.Count+1, m.Epoch
	b.messages[key] = next
}

// keepsLast reports whether the mailbox keeps the message it has instead of the new one. A
// message whose Heard is this mailbox's epoch is replaced only by another such message that is
// not older.
func (b *Mailbox) keepsLast(last, now *Message) bool {
	return last.Heard == b.epoch && (now.Heard != b.epoch || now.At < last.At)
}

// Get returns a copy of the message that the mailbox keeps for a step; nil if there is none.
func (b *Mailbox) Get(p Pair, s Step) *Received {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := b.messages[mailboxKey{p, s}]; ok {
		return &r
	}
	return nil
}

// Forget drops the messages of a pair for the given steps, so that a later peering does not
// use them.
func (b *Mailbox) Forget(p Pair, steps []Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range steps {
		delete(b.messages, mailboxKey{p, s})
	}
}

// Messenger sends an envelope to another cluster. It does not guarantee delivery.
type Messenger interface {
	SendMessage(ctx context.Context, msg *v1.Message) error
}

// Signer wraps a payload in an envelope whose signature identifies this cluster to a Verifier.
type Signer func(payload []byte) (envelope []byte, err error)

// Verifier returns the payload of an envelope and the cluster that signed it.
type Verifier func(envelope []byte) (clusterID string, payload []byte, err error)
