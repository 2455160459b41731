package liqo_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/networking/forge"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// These tests connect the networks of two clusters on real API servers, each agent with the
// shipped rights and policy. The tests do the part of Liqo's networking module: they map
// networks, give the server an address and connect the tunnel.

// linked is one of several clusters whose agents exchange messages.
type linked struct {
	*member
	id, peer string
	others   map[string]*linked
}

// SendMessage delivers a message, as the broker does.
func (l *linked) SendMessage(ctx context.Context, msg *v1.Message) error {
	return l.others[msg.To].peering.Deliver(ctx, l.id, msg.Body)
}

func startLinked(t *testing.T) (rome, paris *linked) {
	t.Helper()
	others := map[string]*linked{}
	for id, peer := range map[string]string{"rome": "paris", "paris": "rome"} {
		l := &linked{member: startCluster(t), id: id, peer: peer, others: others}
		others[id] = l
		l.create(keyPair(t))
		outbox := outbox.NewOutbox(clock.RealClock{})
		l.peering = liqo.New(liqo.Options{
			ClusterID: id, InstructionNamespace: "default", LiqoNamespace: "liqo", Clock: clock.RealClock{}, Client: l.agent, Reader: l.agent,
			Messenger: l, Outbox: outbox, GatewayService: corev1.ServiceTypeNodePort,
			Sign: func(payload []byte) ([]byte, error) { return append([]byte(id+"\n"), payload...), nil },
			Verify: func(envelope []byte) (string, []byte, error) {
				signer, payload, found := bytes.Cut(envelope, []byte("\n"))
				if !found {
					return "", nil, errors.New("not signed")
				}
				return string(signer), payload, nil
			},
		})
		runtest.Start(t, outbox)
	}
	return others["rome"], others["paris"]
}

// keyPair creates the key pair of a cluster's Liqo.
func keyPair(t *testing.T) *corev1.Secret {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	runtest.Check(t, err)
	privateDER, failed := x509.MarshalPKCS8PrivateKey(private)
	publicDER, err := x509.MarshalPKIXPublicKey(public)
	runtest.Check(t, errors.Join(failed, err))
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: consts.AuthKeysSecretName}, Data: map[string][]byte{
		consts.PrivateKeyField: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateDER}),
		consts.PublicKeyField:  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicDER}),
	}}
}

// network creates one of the cluster's networks, as assigned by Liqo's IPAM.
func (l *linked) network(kind string, cidr networkingv1beta1.CIDR) {
	l.Helper()
	n := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: kind, Labels: map[string]string{consts.NetworkTypeLabelKey: kind}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: cidr},
	}
	l.create(n)
	n.Status.CIDR = cidr
	l.check(l.Status().Update(l.Context(), n))
}

func (l *linked) read(name string, into client.Object) bool {
	l.Helper()
	err := l.Get(l.Context(), client.ObjectKey{Namespace: object.TenantNamespaceName(l.peer), Name: name}, into)
	l.check(client.IgnoreNotFound(err))
	return err == nil
}

// liqo maps the networks of a Configuration and gives a server its address.
func (l *linked) liqo() {
	l.Helper()
	var c networkingv1beta1.Configuration
	if l.read(l.peer, &c) && len(c.Status.Conditions) == 0 && c.DeletionTimestamp == nil {
		c.Status = networkingv1beta1.ConfigurationStatus{Remote: &c.Spec.Remote, Conditions: []metav1.Condition{{
			Type: networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue, Reason: "Mapped",
			ObservedGeneration: c.Generation, LastTransitionTime: metav1.Now(),
		}}}
		l.check(l.Status().Update(l.Context(), &c))
	}
	var s networkingv1beta1.GatewayServer
	if l.read(l.peer, &s) && s.Status.Endpoint == nil {
		s.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.7"}, Port: 30222, Protocol: new(corev1.ProtocolUDP)}
		l.check(l.Status().Update(l.Context(), &s))
	}
}

func (l *linked) connect(value networkingv1beta1.ConnectionStatusValue, latency string) {
	l.Helper()
	c := &networkingv1beta1.Connection{
		ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName(l.peer), Name: "gw-" + l.peer, Labels: map[string]string{consts.RemoteClusterID: l.peer}},
		Spec:       networkingv1beta1.ConnectionSpec{Type: networkingv1beta1.ConnectionTypeClient},
	}
	if !l.read(c.Name, c) {
		l.create(c)
	}
	c.Status = networkingv1beta1.ConnectionStatus{Value: value, Latency: networkingv1beta1.ConnectionLatency{Value: latency, Timestamp: metav1.Now()}}
	l.check(l.Status().Update(l.Context(), c))
}

// pair is two clusters with a reservation between them.
type pair struct {
	rome, paris *linked
	state       plan.ConsumerState
}

func (p *pair) look() {
	p.rome.Helper()
	var consumer agentv1alpha1.ReservationInstruction
	key := client.ObjectKey{Namespace: "default", Name: nodeName}
	p.rome.check(p.rome.Get(p.rome.Context(), key, &consumer))
	var err error
	p.state, err = p.rome.peering.Consume(p.rome.Context(), &consumer)
	p.rome.check(err)
	var provider agentv1alpha1.ProviderInstruction
	p.paris.check(p.paris.Get(p.paris.Context(), key, &provider))
	_, err = p.paris.peering.Provide(p.paris.Context(), &provider)
	p.paris.check(err)
}

func (p *pair) until(what string, done func() bool) {
	p.rome.Helper()
	err := wait.PollUntilContextTimeout(p.rome.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		p.look()
		return done(), nil
	})
	if err != nil {
		p.rome.Fatalf("%s: not in time; %+v", what, p.state.Network)
	}
}

// Two agents connect the networks of their clusters as liqoctl would. TestTwoNetworksConnectAndPart does the same in
// memory, so -short leaves out this test, which boots two API servers.
func TestTwoNetworksConnectOnAPIServers(t *testing.T) {
	if testing.Short() {
		t.Skip("it boots two API servers")
	}
	rome, paris := startLinked(t)
	rome.network("pod-cidr", "10.10.0.0/16")
	rome.network("external-cidr", "10.11.0.0/16")
	object := metav1.ObjectMeta{Namespace: "default", Name: nodeName}
	consumer := &agentv1alpha1.ReservationInstruction{ObjectMeta: *object.DeepCopy(), Spec: agentv1alpha1.ReservationInstructionSpec{
		ReservationName: reservation, Placement: 1, TargetClusterID: "paris", Resources: corev1.ResourceList{},
	}}
	provider := &agentv1alpha1.ProviderInstruction{ObjectMeta: object, Spec: agentv1alpha1.ProviderInstructionSpec{
		ReservationName: reservation, Placement: 1, RequesterClusterID: "rome", Resources: corev1.ResourceList{},
	}}
	rome.create(consumer)
	paris.create(provider)
	provider.Status.Enforced = true
	paris.check(paris.Status().Update(t.Context(), provider))
	p := &pair{rome: rome, paris: paris}

	p.until("the consumer waits for what the provider says", func() bool { return p.state.Network.Reason == agentv1alpha1.ReasonNetworkPending })
	paris.network("pod-cidr", "10.20.0.0/16")
	paris.network("external-cidr", "10.21.0.0/16")
	p.until("public keys crossed", func() bool {
		rome.liqo()
		paris.liqo()
		return rome.read("paris", &networkingv1beta1.PublicKey{}) && paris.read("rome", &networkingv1beta1.PublicKey{})
	})
	wantAsLiqoctl(t, rome, paris)
	wantLeastRights(t, paris)

	paris.connect(networkingv1beta1.Connected, "12ms")
	rome.connect(networkingv1beta1.Connecting, "N/A")
	p.until("the gateways connect", func() bool {
		return p.state.Network.Reason == agentv1alpha1.ReasonNetworkPending && !p.state.Network.True
	})
	rome.connect(networkingv1beta1.ConnectionError, "N/A")
	p.until("they fail", func() bool { return p.state.Network.Reason == agentv1alpha1.ReasonNetworkFailed })
	if _, why, known := rome.peering.Tunnel(t.Context(), "paris"); why == "" || !known {
		t.Errorf("the tunnel fails, and the broker is told: %q, %t", why, known)
	}
	rome.connect(networkingv1beta1.Connected, "12ms")
	p.until("they are connected", func() bool { return p.state.Network.True })
	if roundTrip, why, known := rome.peering.Tunnel(t.Context(), "paris"); roundTrip != 12*time.Millisecond || why != "" || !known {
		t.Errorf("the broker is told: %v, %q, %t", roundTrip, why, known)
	}

	rome.check(rome.Get(t.Context(), client.ObjectKeyFromObject(consumer), consumer))
	consumer.Spec.Release = true
	rome.check(rome.Update(t.Context(), consumer))
	paris.check(paris.Get(t.Context(), client.ObjectKeyFromObject(provider), provider))
	provider.Spec.Release, provider.Spec.Unpeer = true, true
	paris.check(paris.Update(t.Context(), provider))
	p.until("all of it is gone", func() bool { return left(rome) == 0 && left(paris) == 0 })
}

// left counts the objects that only the agent removes. The PublicKey and the Secret with the gateway's keys are not
// counted: the gateway owns them, so Kubernetes deletes them with it.
func left(l *linked) (n int) {
	for _, obj := range []client.Object{&networkingv1beta1.Configuration{}, &networkingv1beta1.GatewayServer{}, &networkingv1beta1.GatewayClient{}} {
		if l.read(l.peer, obj) {
			n++
		}
	}
	return n
}

// wantAsLiqoctl compares the agent's objects with those of Liqo's own code for liqoctl network
// connect.
func wantAsLiqoctl(t *testing.T, rome, paris *linked) {
	t.Helper()
	for _, l := range []*linked{rome, paris} {
		cidrs := map[string][2]string{"rome": {"10.10.0.0/16", "10.11.0.0/16"}, "paris": {"10.20.0.0/16", "10.21.0.0/16"}}[l.peer]
		namespace, peer := object.TenantNamespaceName(l.peer), liqov1beta1.ClusterID(l.peer)
		l.wantObject(forge.Configuration(l.peer, namespace, peer, cidrs[:1], cidrs[1]), &networkingv1beta1.Configuration{})
		keys, remote := &corev1.Secret{}, &corev1.Secret{}
		other := l.others[l.peer]
		if !l.read("liqo-gateway-keys", keys) || !other.read("liqo-gateway-keys", remote) {
			t.Fatal("a gateway has no keys")
		}
		if l.others["rome"] == l {
			want, err := forge.GatewayClient(namespace, nil, &forge.GwClientOptions{
				KubeClient: templates(), RemoteClusterID: peer, GatewayType: forge.DefaultGwClientType, TemplateName: forge.DefaultGwClientTemplateName,
				TemplateNamespace: "liqo", MTU: forge.DefaultMTU, Addresses: []string{"192.0.2.7"}, Port: 30222, Protocol: "UDP",
			})
			l.check(err)
			want.Spec.SecretRef.Name = keys.Name
			l.wantObject(want, &networkingv1beta1.GatewayClient{})
		} else {
			want, err := forge.GatewayServer(namespace, nil, &forge.GwServerOptions{
				KubeClient: templates(), RemoteClusterID: peer, GatewayType: forge.DefaultGwServerType, TemplateName: forge.DefaultGwServerTemplateName,
				TemplateNamespace: "liqo", ServiceType: corev1.ServiceTypeNodePort, MTU: forge.DefaultMTU, Port: forge.DefaultGwServerPort,
			})
			l.check(err)
			want.Spec.SecretRef.Name = keys.Name
			l.wantObject(want, &networkingv1beta1.GatewayServer{})
		}
		want, err := forge.PublicKey(namespace, nil, peer, remote.Data[consts.PublicKeyField])
		l.check(err)
		got := &networkingv1beta1.PublicKey{}
		l.wantObject(want, got)
		if len(got.OwnerReferences) != 1 || len(keys.OwnerReferences) != 1 || got.OwnerReferences[0] != keys.OwnerReferences[0] {
			t.Errorf("%s: keys do not go with one gateway: %v, %v", l.id, got.OwnerReferences, keys.OwnerReferences)
		}
		if len(keys.Data[consts.PrivateKeyField]) != 32 || bytes.Equal(keys.Data[consts.PrivateKeyField], remote.Data[consts.PrivateKeyField]) ||
			keys.Labels[consts.GatewayResourceLabel] != consts.GatewayResourceLabelValue || keys.Labels[consts.RemoteClusterID] != l.peer {
			t.Errorf("%s: Liqo does not take these keys: labels %v", l.id, keys.Labels)
		}
	}
}

// wantObject reads the object with the name of want and compares the two, except for the agent's
// label.
func (l *linked) wantObject(want, got client.Object) {
	l.Helper()
	if !l.read(want.GetName(), got) {
		l.Errorf("%s: no %T %q", l.id, want, want.GetName())
		return
	}
	labels := want.GetLabels()
	labels[agentv1alpha1.ManagedByLabel] = agentv1alpha1.ManagedByValue
	if diff := cmp.Diff(labels, got.GetLabels()); diff != "" {
		l.Errorf("%s: labels of %T (-want +got):\n%s", l.id, got, diff)
	}
	if diff := cmp.Diff(specOf(want), specOf(got)); diff != "" {
		l.Errorf("%s: spec of %T (-want +got):\n%s", l.id, got, diff)
	}
}

func specOf(obj client.Object) any {
	switch o := obj.(type) {
	case *networkingv1beta1.Configuration:
		return o.Spec
	case *networkingv1beta1.GatewayServer:
		return o.Spec
	case *networkingv1beta1.GatewayClient:
		return o.Spec
	case *networkingv1beta1.PublicKey:
		return o.Spec
	}
	return nil
}

// templates returns an API server that serves Liqo's template kinds. Liqo's code asks for nothing
// else.
func templates() *fake.Clientset {
	c := fake.NewClientset()
	c.Resources = []*metav1.APIResourceList{{GroupVersion: networkingv1beta1.GroupVersion.String(), APIResources: []metav1.APIResource{
		{Name: "wggatewayclienttemplates", Kind: networkingv1beta1.WgGatewayClientTemplateKind},
		{Name: "wggatewayservertemplates", Kind: networkingv1beta1.WgGatewayServerTemplateKind},
	}}}
	return c
}

// wantLeastRights tries operations that the agent's account must not perform.
func wantLeastRights(t *testing.T, l *linked) {
	t.Helper()
	tenant := object.TenantNamespaceName(l.peer)
	theirs := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "theirs"}}
	l.create(theirs)
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "gw-" + l.peer}})
	ours := map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue}
	for what, err := range map[string]error{
		"a gateway in another namespace": l.agent.Create(t.Context(), &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Labels: ours}}),
		"a gateway without its label":    l.agent.Create(t.Context(), &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "a"}}),
		"somebody else's Configuration":  l.agent.Delete(t.Context(), theirs),
		"keys that Liqo made":            l.agent.Get(t.Context(), client.ObjectKey{Namespace: tenant, Name: "gw-" + l.peer}, &corev1.Secret{}),
		"all Secrets":                    l.agent.List(t.Context(), &corev1.SecretList{}, client.InNamespace(tenant)),
	} {
		if !isRefused(err) && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want a refusal", what, err)
		}
	}
	l.check(l.Delete(t.Context(), theirs))
}
