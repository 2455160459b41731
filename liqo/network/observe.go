package network

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	networkingutils "github.com/liqotech/liqo/pkg/liqo-controller-manager/networking/utils"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// Kinds of the network objects that the agent makes.
var (
	configurationKind = networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.ConfigurationKind)
	gatewayServerKind = networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayServerKind)
	gatewayClientKind = networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayClientKind)
)

// Scene is a NetworkView, together with the objects and the message from which it was made.
type Scene struct {
	plan.NetworkView
	pair      handshake.Pair
	namespace string
	// placement is the placement that this cluster names in its messages to the peer.
	placement string

	own         Network
	peerNetwork *Network
	// received is the newest message of the peer, nil if there is none.
	received *handshake.Received

	configuration *networkingv1beta1.Configuration
	server        *networkingv1beta1.GatewayServer
	client        *networkingv1beta1.GatewayClient
	publicKey     *networkingv1beta1.PublicKey
}

func (s *Scene) ownGateway() client.Object {
	switch {
	case s.server != nil:
		return s.server
	case s.client != nil:
		return s.client
	}
	return nil
}

func (s *Scene) ownStep() handshake.Step {
	if s.Provides {
		return handshake.StepProviderNetwork
	}
	return handshake.StepConsumerNetwork
}

// Observe returns the state of the network between the two clusters of a pair, as seen from this
// cluster. placement is the placement that this cluster's messages must name. live reports whether
// a placement has not ended.
func (c *Connector) Observe(ctx context.Context, pair handshake.Pair, namespace, placement string, live func(string) bool) (*Scene, error) {
	s := &Scene{pair: pair, namespace: namespace, placement: placement}
	s.On, s.Self, s.Peer, s.Provides = true, pair.Consumer, pair.Provider, false
	if c.opts.ClusterID == pair.Provider {
		s.Self, s.Peer, s.Provides = pair.Provider, pair.Consumer, true
	}
	networks, err := c.ownNetworks(ctx)
	if err != nil {
		return nil, err
	}
	s.own.Pod, s.own.External, s.Known = networks.pod, networks.external, networks.areKnown()
	if err := c.observeTunnel(ctx, s); err != nil {
		return nil, err
	}
	if err := c.observeGatewayKeys(ctx, s); err != nil {
		return nil, err
	}
	s.readMessage(c.opts.Mailbox, live)
	s.compareObjects()
	return s, nil
}

// observeTunnel reads the objects for the peer, whoever made them.
func (c *Connector) observeTunnel(ctx context.Context, s *Scene) error {
	var configurations networkingv1beta1.ConfigurationList
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	var keys networkingv1beta1.PublicKeyList
	for _, list := range []client.ObjectList{&configurations, &servers, &clients, &keys} {
		if err := c.opts.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{consts.RemoteClusterID: s.Peer}); err != nil {
			return fmt.Errorf("network of %q: %w", s.Peer, err)
		}
	}
	if s.configuration = firstOf(configurations.Items); s.configuration != nil {
		s.Configuration = plan.ConfigurationView{
			ObjectView: object.ViewOf(s.configuration), Ready: networkingutils.AreConfigurationNetworkCIDRsConfigured(s.configuration),
		}
	}
	if s.server = firstOf(servers.Items); s.server != nil {
		endpoint := s.server.Status.Endpoint
		s.Server = plan.GatewayView{ObjectView: object.ViewOf(s.server), Address: endpoint != nil && checkEndpoint(endpoint) == nil}
		s.own.Serves = s.server.DeletionTimestamp == nil
		if s.Server.Address {
			s.own.Endpoint = endpoint
		}
	}
	if s.client = firstOf(clients.Items); s.client != nil {
		s.Client = plan.GatewayView{ObjectView: object.ViewOf(s.client)}
	}
	if s.publicKey = firstOf(keys.Items); s.publicKey != nil {
		s.PublicKey = plan.PublicKeyView{ObjectView: object.ViewOf(s.publicKey)}
	}
	var err error
	s.Connection, err = c.ReadConnection(ctx, s.Peer)
	s.own.Connected = s.Connection.Connected
	return err
}

// firstOf returns nil for an empty list. Liqo allows one object for each peer.
func firstOf[T any](items []T) *T {
	if len(items) == 0 {
		return nil
	}
	return &items[0]
}

// ReadConnection returns the state of the tunnel to a peer, as Liqo's gateway reports it, or the
// zero value if there is no tunnel.
func (c *Connector) ReadConnection(ctx context.Context, peer string) (plan.ConnectionView, error) {
	var list networkingv1beta1.ConnectionList
	if err := c.opts.Client.List(ctx, &list, client.MatchingLabels{consts.RemoteClusterID: peer}); err != nil {
		return plan.ConnectionView{}, fmt.Errorf("network connection with %q: %w", peer, err)
	}
	seen := firstOf(list.Items)
	if seen == nil || seen.DeletionTimestamp != nil {
		return plan.ConnectionView{}, nil
	}
	v := plan.ConnectionView{Connected: seen.Status.Value == networkingv1beta1.Connected, Failed: seen.Status.Value == networkingv1beta1.ConnectionError}
	if roundTrip, err := time.ParseDuration(seen.Status.Latency.Value); v.Connected && err == nil && roundTrip > 0 {
		v.RoundTrip = roundTrip
	}
	return v, nil
}

// observeGatewayKeys reads the key pair of this cluster's gateway if the agent made that
// gateway. It ignores the key pair of an earlier gateway, because Kubernetes deletes it together
// with that gateway.
func (c *Connector) observeGatewayKeys(ctx context.Context, s *Scene) error {
	gateway := s.ownGateway()
	if gateway == nil || !object.Ours(gateway) {
		return nil
	}
	var secret corev1.Secret
	found, err := object.Get(ctx, c.opts.Reader, s.namespace, object.GatewayKeysName, &secret)
	if !found || err != nil || !ownedBy(&secret, gateway.GetUID()) {
		return err
	}
	s.own.PublicKey = secret.Data[consts.PublicKeyField]
	s.Server.Keys, s.Client.Keys = true, true
	return nil
}

func ownedBy(obj metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid })
}

// readMessage reads and checks the peer's newest message about its network. Of a message that is
// outdated (it names another epoch than the mailbox's, or an ended placement), it notes only
// whether the peer asks for an answer.
func (s *Scene) readMessage(b *handshake.Mailbox, live func(string) bool) {
	theirs := handshake.StepProviderNetwork
	if s.Provides {
		theirs = handshake.StepConsumerNetwork
	}
	if s.received = b.Get(s.pair, theirs); s.received == nil {
		return
	}
	var n Network
	err := s.received.Decode(&n)
	s.Told.Asks = err == nil && !n.Connected
	if s.received.Heard != b.Epoch() || !live(s.received.Placement) {
		return
	}
	if err == nil {
		err = n.checkValues()
	}
	if err != nil {
		s.Told.Problem = fmt.Sprintf("the network description of %q cannot be used: %v", s.Peer, err)
		return
	}
	s.peerNetwork = &n
	s.Told.Fresh, s.Told.Serves, s.Told.Endpoint, s.Told.Key = true, n.Serves, n.Endpoint != nil, len(n.PublicKey) > 0
}

// compareObjects checks which objects match the peer's newest message.
func (s *Scene) compareObjects() {
	if s.peerNetwork == nil {
		return
	}
	if s.configuration != nil {
		s.Configuration.Current = equality.Semantic.DeepEqual(s.configuration.Spec.Remote, s.peerNetwork.remoteConfig())
	}
	if s.client != nil {
		s.Client.Current = s.peerNetwork.Endpoint != nil && equality.Semantic.DeepEqual(s.client.Spec.Endpoint, *s.peerNetwork.Endpoint)
	}
	if gateway := s.ownGateway(); s.publicKey != nil && gateway != nil {
		s.PublicKey.Current = string(s.publicKey.Spec.PublicKey) == string(s.peerNetwork.PublicKey) && ownedBy(s.publicKey, gateway.GetUID())
	}
}

func (n *Network) remoteConfig() networkingv1beta1.ClusterConfig {
	return networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: n.Pod, External: n.External}}
}

// ownNetworks are the CIDRs of this cluster's networks, as Liqo's IPAM has assigned them.
type ownNetworks struct {
	pod, external []networkingv1beta1.CIDR
	readAt        time.Time
}

func (n ownNetworks) areKnown() bool { return len(n.pod) > 0 && len(n.external) > 0 }

// networksMaxAge is how long a copy of the CIDRs is used. They change only when Liqo is
// reinstalled.
const networksMaxAge = time.Minute

// ownNetworks returns the CIDRs of this cluster's networks. It returns none until Liqo's IPAM
// has assigned all of them.
func (c *Connector) ownNetworks(ctx context.Context) (ownNetworks, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Clock.Now()
	if c.networks.areKnown() && now.Sub(c.networks.readAt) < networksMaxAge {
		return c.networks, nil
	}
	read := ownNetworks{readAt: now}
	for kind, into := range map[consts.NetworkType]*[]networkingv1beta1.CIDR{
		consts.NetworkTypePodCIDR: &read.pod, consts.NetworkTypeExternalCIDR: &read.external,
	} {
		var list ipamv1alpha1.NetworkList
		err := c.opts.Reader.List(ctx, &list, client.InNamespace(c.opts.LiqoNamespace), client.MatchingLabels{consts.NetworkTypeLabelKey: string(kind)})
		if err != nil {
			return read, fmt.Errorf("networks of this cluster: %w", err)
		}
		for i := range list.Items {
			if list.Items[i].Status.CIDR == "" {
				return ownNetworks{}, nil
			}
			*into = append(*into, list.Items[i].Status.CIDR)
		}
	}
	c.networks = read
	return read, nil
}

// CountLeft adds to h what remains of the network connection with a peer.
func (c *Connector) CountLeft(ctx context.Context, peer string, h *plan.HomeView) error {
	for _, kind := range []schema.GroupVersionKind{gatewayServerKind, gatewayClientKind} {
		items, err := object.ListOfPeer(ctx, c.opts.Reader, kind, peer)
		if err != nil {
			return err
		}
		for i := range items {
			switch {
			case !object.Ours(&items[i]):
				h.Roots++
			case items[i].DeletionTimestamp != nil:
				h.Leaving++
				fallthrough
			default:
				h.Gateways++
			}
		}
	}
	items, err := object.ListOfPeer(ctx, c.opts.Reader, configurationKind, peer)
	for i := range items {
		h.Configured = h.Configured || object.Ours(&items[i])
		h.Mapped = h.Mapped || !object.Ours(&items[i])
	}
	return err
}

// Tunnel returns the round-trip time to a cluster through Liqo's gateways, or the reason why the
// gateways cannot reach it. known is false if neither is known, for example because no gateway
// connects the two clusters.
func (c *Connector) Tunnel(ctx context.Context, cluster string) (roundTrip time.Duration, why string, known bool) {
	if c.opts.Service == "" {
		return 0, "", false
	}
	seen, err := c.ReadConnection(ctx, cluster)
	switch {
	case err != nil:
		return 0, "", false
	case seen.Failed:
		return 0, "Liqo's gateways do not reach each other", true
	}
	return seen.RoundTrip, "", seen.RoundTrip > 0
}

// Watches returns the kinds of objects that make up a network connection; none if this cluster
// does not connect networks.
func (c *Connector) Watches() []client.Object {
	if c.opts.Service == "" {
		return nil
	}
	return []client.Object{
		&networkingv1beta1.Configuration{}, &networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{},
		&networkingv1beta1.PublicKey{}, &networkingv1beta1.Connection{},
	}
}
