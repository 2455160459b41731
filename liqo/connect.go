package liqo

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
)

// What liqoctl network connect sets where nothing else is asked for.
const (
	gatewayPort           = 51840
	gatewayMTU            = 1340
	gatewayServerTemplate = "wireguard-server"
	gatewayClientTemplate = "wireguard-client"
)

// said is the newest that this cluster says of its network to one peer.
type said struct {
	// content is what it is a digest of.
	content string
	at      int64
}

// connections carry out what planNetwork calls for.
var connections = map[Verb]func(*Peering, context.Context, *networkScene) error{
	SendNetwork:        func(p *Peering, _ context.Context, s *networkScene) error { return p.sayNetwork(s, true) },
	AnswerNetwork:      func(p *Peering, _ context.Context, s *networkScene) error { return p.sayNetwork(s, false) },
	StopNetwork:        (*Peering).stopNetwork,
	WriteConfiguration: (*Peering).writeConfiguration,
	WriteGatewayServer: (*Peering).writeGatewayServer,
	WriteGatewayClient: (*Peering).writeGatewayClient,
	WriteGatewayKeys:   (*Peering).writeGatewayKeys,
	WritePublicKey:     (*Peering).writePublicKey,
	YieldGatewayServer: func(p *Peering, ctx context.Context, s *networkScene) error { return p.remove(ctx, s.server) },
}

// sayNetwork tells the peer what this cluster has, over and over or once for each time
// that the peer asks.
func (p *Peering) sayNetwork(s *networkScene, repeat bool) error {
	m := Message{
		Consumer: s.pair.Consumer, Provider: s.pair.Provider, Placement: s.placement,
		Epoch: p.mailbox.epoch, Step: s.step(),
	}
	asked := 0
	if s.came != nil {
		m.Heard, asked = s.came.speaker, s.came.count
	}
	_, content, err := encode(&m, s.own)
	if err != nil {
		return err
	}
	m.At = p.sayingAt(s.pair, content)
	payload, version, err := encode(&m, s.own)
	if err != nil {
		return err
	}
	key, send := s.pair.posting(m.Step), p.message(s.pair, m.Step, payload)
	if repeat {
		p.opts.Outbox.Repeat(key, version, 0, send)
	} else {
		p.opts.Outbox.Post(key, fmt.Sprintf("%s/%d", version, asked), send, nil)
	}
	return nil
}

// sayingAt is when this content was said first.
func (p *Peering) sayingAt(pair Pair, content string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.said[pair]
	if last.content != content {
		last = said{content: content, at: max(p.opts.Clock.Now().UnixNano(), last.at+1)}
		p.said[pair] = last
	}
	return last.at
}

func (p *Peering) stopNetwork(_ context.Context, s *networkScene) error {
	p.opts.Outbox.Drop(s.pair.posting(s.step()))
	return nil
}

func (s *networkScene) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: s.Peer, Labels: ourLabels(s.Peer)}
}

func (p *Peering) writeConfiguration(ctx context.Context, s *networkScene) error {
	if s.configuration != nil {
		update := s.configuration.DeepCopy()
		update.Spec.Remote = s.told.remote()
		return p.opts.Client.Update(ctx, update)
	}
	return p.create(ctx, &networkingv1beta1.Configuration{
		ObjectMeta: s.meta(), Spec: networkingv1beta1.ConfigurationSpec{Remote: s.told.remote()},
	})
}

func (p *Peering) writeGatewayServer(ctx context.Context, s *networkScene) error {
	return p.create(ctx, &networkingv1beta1.GatewayServer{
		ObjectMeta: s.meta(),
		Spec: networkingv1beta1.GatewayServerSpec{
			ServerTemplateRef: p.template(networkingv1beta1.WgGatewayServerTemplateKind, gatewayServerTemplate),
			MTU:               gatewayMTU, Endpoint: networkingv1beta1.Endpoint{Port: gatewayPort, ServiceType: p.opts.GatewayService},
			SecretRef: corev1.LocalObjectReference{Name: gatewayKeysName},
		},
	})
}

func (p *Peering) writeGatewayClient(ctx context.Context, s *networkScene) error {
	if s.client != nil {
		update := s.client.DeepCopy()
		update.Spec.Endpoint = *s.told.Endpoint
		return p.opts.Client.Update(ctx, update)
	}
	return p.create(ctx, &networkingv1beta1.GatewayClient{
		ObjectMeta: s.meta(),
		Spec: networkingv1beta1.GatewayClientSpec{
			ClientTemplateRef: p.template(networkingv1beta1.WgGatewayClientTemplateKind, gatewayClientTemplate),
			MTU:               gatewayMTU, Endpoint: *s.told.Endpoint,
			SecretRef: corev1.LocalObjectReference{Name: gatewayKeysName},
		},
	})
}

func (p *Peering) template(kind, name string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: networkingv1beta1.GroupVersion.String(), Kind: kind, Namespace: p.opts.LiqoNamespace, Name: name,
	}
}

// writeGatewayKeys makes the key pair of this cluster's gateway rather than have Liqo make
// it: to read the public key the agent would need to read every Secret of any cluster's
// gateway. The private key stays in the Secret.
func (p *Peering) writeGatewayKeys(ctx context.Context, s *networkScene) error {
	private := make([]byte, 32)
	if _, err := rand.Read(private); err != nil {
		return err
	}
	private[0], private[31] = private[0]&248, private[31]&127|64 // as WireGuard wants it
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		return err
	}
	labels := ourLabels(s.Peer)
	labels[consts.GatewayResourceLabel] = consts.GatewayResourceLabelValue
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: gatewayKeysName, Labels: labels},
		Data:       map[string][]byte{consts.PrivateKeyField: private, consts.PublicKeyField: key.PublicKey().Bytes()},
	}
	if err := controllerutil.SetOwnerReference(s.gateway(), secret, p.opts.Client.Scheme()); err != nil {
		return err
	}
	return p.create(ctx, secret)
}

func (p *Peering) writePublicKey(ctx context.Context, s *networkScene) error {
	key := &networkingv1beta1.PublicKey{ObjectMeta: s.meta()}
	if s.publicKey != nil {
		key = s.publicKey.DeepCopy()
	}
	key.Labels[consts.GatewayResourceLabel] = consts.GatewayResourceLabelValue
	key.Spec.PublicKey = s.told.PublicKey
	key.OwnerReferences = nil // another gateway's takes it along
	if err := controllerutil.SetOwnerReference(s.gateway(), key, p.opts.Client.Scheme()); err != nil {
		return err
	}
	if s.publicKey != nil {
		return p.opts.Client.Update(ctx, key)
	}
	return p.create(ctx, key)
}

// removeOurs deletes what the agent made of a kind for a peer.
func (p *Peering) removeOurs(ctx context.Context, kind schema.GroupVersionKind, peer string) error {
	items, err := p.ofPeer(ctx, kind, peer)
	if err != nil {
		return err
	}
	for i := range items {
		if item := client.Object(&items[i]); Ours(item) && item.GetDeletionTimestamp() == nil {
			item.GetObjectKind().SetGroupVersionKind(kind)
			if err := p.remove(ctx, item); err != nil {
				return err
			}
		}
	}
	return nil
}
