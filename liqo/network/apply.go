package network

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// The values that liqoctl network connect uses by default.
const (
	gatewayPort           = 51840
	gatewayMTU            = 1340
	gatewayServerTemplate = "wireguard-server"
	gatewayClientTemplate = "wireguard-client"
)

// sentMessage is the description of this cluster's network that was last sent to one peer.
type sentMessage struct {
	// content is the digest of the message without its time. at is the time at which this
	// content was first sent, in Unix nanoseconds.
	content string
	at      int64
}

// applyFuncs holds the functions that carry out the verbs of a plan that concern the network.
var applyFuncs = map[plan.Verb]func(*Connector, context.Context, *Scene) error{
	plan.SendNetwork:        func(c *Connector, _ context.Context, s *Scene) error { return c.sendNetwork(s, true) },
	plan.AnswerNetwork:      func(c *Connector, _ context.Context, s *Scene) error { return c.sendNetwork(s, false) },
	plan.StopNetwork:        (*Connector).stopNetwork,
	plan.WriteConfiguration: (*Connector).writeConfiguration,
	plan.WriteGatewayServer: (*Connector).writeGatewayServer,
	plan.WriteGatewayClient: (*Connector).writeGatewayClient,
	plan.WriteGatewayKeys:   (*Connector).writeGatewayKeys,
	plan.WritePublicKey:     (*Connector).writePublicKey,
	plan.YieldGatewayServer: func(c *Connector, ctx context.Context, s *Scene) error {
		return object.Delete(ctx, c.opts.Client, s.server)
	},
}

// sendNetwork sends the description of this cluster's network to the peer. With repeat, the Outbox
// repeats the message until Outbox.Drop is called. Without repeat, the message is sent once for
// each message of the peer.
func (c *Connector) sendNetwork(s *Scene, repeat bool) error {
	m := handshake.Message{
		Consumer: s.pair.Consumer, Provider: s.pair.Provider, Placement: s.placement,
		Epoch: c.opts.Mailbox.Epoch(), Step: s.ownStep(),
	}
	asked := 0
	if s.received != nil {
		m.Heard, asked = s.received.LastEpoch, s.received.Count
	}
	_, content, err := handshake.Encode(&m, s.own)
	if err != nil {
		return err
	}
	m.At = c.firstSentAt(s.pair, content)
	payload, version, err := handshake.Encode(&m, s.own)
	if err != nil {
		return err
	}
	key, send := s.pair.Posting(m.Step), c.opts.Message(s.pair, m.Step, payload)
	if repeat {
		c.opts.Outbox.Repeat(key, version, 0, send)
	} else {
		c.opts.Outbox.Post(key, fmt.Sprintf("%s/%d", version, asked), send, nil)
	}
	return nil
}

// firstSentAt returns when this content was first sent to the peer, in Unix nanoseconds. New
// content gets the current time, or the time of the previous content plus 1 if that is later.
func (c *Connector) firstSentAt(pair handshake.Pair, content string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.sent[pair]
	if last.content != content {
		last = sentMessage{content: content, at: max(c.opts.Clock.Now().UnixNano(), last.at+1)}
		c.sent[pair] = last
	}
	return last.at
}

func (c *Connector) stopNetwork(_ context.Context, s *Scene) error {
	c.opts.Outbox.Drop(s.pair.Posting(s.ownStep()))
	return nil
}

func (s *Scene) objectMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: s.Peer, Labels: object.OurLabels(s.Peer)}
}

func (c *Connector) writeConfiguration(ctx context.Context, s *Scene) error {
	if s.configuration != nil {
		update := s.configuration.DeepCopy()
		update.Spec.Remote = s.peerNetwork.remoteConfig()
		return c.opts.Client.Update(ctx, update)
	}
	return object.Create(ctx, c.opts.Client, &networkingv1beta1.Configuration{
		ObjectMeta: s.objectMeta(), Spec: networkingv1beta1.ConfigurationSpec{Remote: s.peerNetwork.remoteConfig()},
	})
}

func (c *Connector) writeGatewayServer(ctx context.Context, s *Scene) error {
	return object.Create(ctx, c.opts.Client, &networkingv1beta1.GatewayServer{
		ObjectMeta: s.objectMeta(),
		Spec: networkingv1beta1.GatewayServerSpec{
			ServerTemplateRef: c.templateRef(networkingv1beta1.WgGatewayServerTemplateKind, gatewayServerTemplate),
			MTU:               gatewayMTU, Endpoint: networkingv1beta1.Endpoint{Port: gatewayPort, ServiceType: c.opts.Service},
			SecretRef: corev1.LocalObjectReference{Name: object.GatewayKeysName},
		},
	})
}

func (c *Connector) writeGatewayClient(ctx context.Context, s *Scene) error {
	if s.client != nil {
		update := s.client.DeepCopy()
		update.Spec.Endpoint = *s.peerNetwork.Endpoint
		return c.opts.Client.Update(ctx, update)
	}
	return object.Create(ctx, c.opts.Client, &networkingv1beta1.GatewayClient{
		ObjectMeta: s.objectMeta(),
		Spec: networkingv1beta1.GatewayClientSpec{
			ClientTemplateRef: c.templateRef(networkingv1beta1.WgGatewayClientTemplateKind, gatewayClientTemplate),
			MTU:               gatewayMTU, Endpoint: *s.peerNetwork.Endpoint,
			SecretRef: corev1.LocalObjectReference{Name: object.GatewayKeysName},
		},
	})
}

func (c *Connector) templateRef(kind, name string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: networkingv1beta1.GroupVersion.String(), Kind: kind, Namespace: c.opts.LiqoNamespace, Name: name,
	}
}

// writeGatewayKeys makes the key pair of this cluster's gateway. If Liqo made the key pair, the
// agent would need permission to read the gateway Secrets of all peers to learn the public key. The
// private key is stored only in the gateway's Secret.
func (c *Connector) writeGatewayKeys(ctx context.Context, s *Scene) error {
	private := make([]byte, 32)
	if _, err := rand.Read(private); err != nil {
		return err
	}
	private[0], private[31] = private[0]&248, private[31]&127|64 // the form of a WireGuard private key
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		return err
	}
	labels := object.OurLabels(s.Peer)
	labels[consts.GatewayResourceLabel] = consts.GatewayResourceLabelValue
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: object.GatewayKeysName, Labels: labels},
		Data:       map[string][]byte{consts.PrivateKeyField: private, consts.PublicKeyField: key.PublicKey().Bytes()},
	}
	if err := controllerutil.SetOwnerReference(s.ownGateway(), secret, c.opts.Client.Scheme()); err != nil {
		return err
	}
	return object.Create(ctx, c.opts.Client, secret)
}

func (c *Connector) writePublicKey(ctx context.Context, s *Scene) error {
	key := &networkingv1beta1.PublicKey{ObjectMeta: s.objectMeta()}
	if s.publicKey != nil {
		key = s.publicKey.DeepCopy()
	}
	key.Labels[consts.GatewayResourceLabel] = consts.GatewayResourceLabelValue
	key.Spec.PublicKey = s.peerNetwork.PublicKey
	key.OwnerReferences = nil // the owner reference of a deleted gateway would delete the key
	if err := controllerutil.SetOwnerReference(s.ownGateway(), key, c.opts.Client.Scheme()); err != nil {
		return err
	}
	if s.publicKey != nil {
		return c.opts.Client.Update(ctx, key)
	}
	return object.Create(ctx, c.opts.Client, key)
}
