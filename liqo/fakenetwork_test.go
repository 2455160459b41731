package liqo

import (
	"bytes"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// newNetworked returns a world whose clusters run Liqo's networking module.
func newNetworked(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.networked = true
	for id, cidrs := range map[string]map[string]networkingv1beta1.CIDR{
		"rome":  {"pod-cidr": "10.10.0.0/16", "external-cidr": "10.11.0.0/16"},
		"paris": {"pod-cidr": "10.20.0.0/16", "external-cidr": "10.21.0.0/16"},
	} {
		for kind, cidr := range cidrs {
			w.check(w.sites[id].client.Create(t.Context(), &ipamv1alpha1.Network{
				ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: kind, Labels: map[string]string{consts.NetworkTypeLabelKey: kind}},
				Status:     ipamv1alpha1.NetworkStatus{CIDR: cidr},
			}))
		}
		w.restart(id)
	}
	return w
}

func (w *world) gatewayService() corev1.ServiceType {
	if !w.networked {
		return ""
	}
	return corev1.ServiceTypeNodePort
}

// network runs Liqo's networking module once, in one cluster for one peer.
func (w *world) network(id, peer string) {
	w.t.Helper()
	w.mapNetwork(id, peer)
	w.serve(id, peer)
	w.collectTunnel(id, peer)
	w.tunnel(id, peer)
}

func (w *world) mapNetwork(id, peer string) {
	w.t.Helper()
	var c networkingv1beta1.Configuration
	if !w.exists(id, object.TenantNamespaceName(peer), peer, &c) || len(c.Status.Conditions) > 0 {
		return
	}
	c.Status.Remote = &c.Spec.Remote
	c.Status.Conditions = []metav1.Condition{{Type: networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured, Status: metav1.ConditionTrue}}
	w.check(w.sites[id].client.Status().Update(w.t.Context(), &c))
}

func (w *world) serve(id, peer string) {
	w.t.Helper()
	var s networkingv1beta1.GatewayServer
	if !w.exists(id, object.TenantNamespaceName(peer), peer, &s) || s.Status.Endpoint != nil {
		return
	}
	s.Status.Endpoint = &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.7"}, Port: 30000, Protocol: new(corev1.ProtocolUDP)}
	w.check(w.sites[id].client.Status().Update(w.t.Context(), &s))
}

// collectTunnel removes the objects of a deleted gateway.
func (w *world) collectTunnel(id, peer string) {
	w.t.Helper()
	ns := object.TenantNamespaceName(peer)
	if w.exists(id, ns, peer, &networkingv1beta1.GatewayServer{}) || w.exists(id, ns, peer, &networkingv1beta1.GatewayClient{}) {
		return
	}
	w.delete(id, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: object.GatewayKeysName}})
	w.delete(id, &networkingv1beta1.PublicKey{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: peer}})
	w.delete(id, &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gw-" + peer}})
}

// tunnel connects two gateways once each has the other's public key.
func (w *world) tunnel(id, peer string) {
	w.t.Helper()
	var mine networkingv1beta1.PublicKey
	if !w.exists(id, object.TenantNamespaceName(peer), peer, &mine) || !w.fits(id, peer) || !w.fits(peer, id) {
		return
	}
	c := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.TenantNamespaceName(peer), Name: "gw-" + peer, Labels: map[string]string{consts.RemoteClusterID: peer},
	}}
	if w.exists(id, c.Namespace, c.Name, &networkingv1beta1.Connection{}) {
		return
	}
	w.check(w.sites[id].client.Create(w.t.Context(), c))
	c.Status = networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected, Latency: networkingv1beta1.ConnectionLatency{Value: "12ms"}}
	w.check(w.sites[id].client.Status().Update(w.t.Context(), c))
}

// fits reports whether a cluster knows its peer's current key and, if it has the client, whether
// the client connects to the peer's server.
func (w *world) fits(id, peer string) bool {
	w.t.Helper()
	var theirs networkingv1beta1.PublicKey
	var keys corev1.Secret
	if !w.exists(peer, object.TenantNamespaceName(id), object.GatewayKeysName, &keys) || !w.exists(id, object.TenantNamespaceName(peer), peer, &theirs) ||
		!bytes.Equal(theirs.Spec.PublicKey, keys.Data[consts.PublicKeyField]) {
		return false
	}
	var c networkingv1beta1.GatewayClient
	var s networkingv1beta1.GatewayServer
	if w.exists(id, object.TenantNamespaceName(peer), peer, &c) {
		return w.exists(peer, object.TenantNamespaceName(id), id, &s) && s.Status.Endpoint != nil && c.Spec.Endpoint.Port == s.Status.Endpoint.Port
	}
	return w.exists(id, object.TenantNamespaceName(peer), peer, &s)
}

func (w *world) connectedThrough(id, peer string) bool {
	w.t.Helper()
	v, err := w.sites[id].peering.network.ReadConnection(w.t.Context(), peer)
	w.check(err)
	return v.Connected
}

// bothConnected reports whether rome and paris both reach the other's network.
func (w *world) bothConnected() bool {
	return w.connectedThrough("rome", "paris") && w.connectedThrough("paris", "rome")
}

// encodeBytes returns b as it appears in a message.
func encodeBytes(t *testing.T, b []byte) []byte {
	t.Helper()
	text, err := json.Marshal(b)
	if err != nil || len(b) == 0 {
		t.Fatalf("%d bytes: %v", len(b), err)
	}
	return bytes.Trim(text, `"`)
}
