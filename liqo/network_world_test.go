package liqo

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

func TestTwoNetworksConnectAndPart(t *testing.T) {
	tests := map[string]struct{ after func(*world) }{
		"undisturbed":                        {after: func(*world) {}},
		"the consumer restarts all the time": {after: everySecond(func(w *world) { w.restart("rome") })},
		"the provider restarts all the time": {after: everySecond(func(w *world) { w.restart("paris") })},
		"every third message is lost":        {after: func(w *world) { w.loseMail() }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newNetworked(t)
				w.reserve("rome", "paris", "res-a")
				w.until("both networks are connected", test.after, w.bothConnected)
				if w.exists("rome", object.TenantNamespaceName("paris"), "paris", &networkingv1beta1.GatewayServer{}) ||
					w.exists("paris", object.TenantNamespaceName("rome"), "rome", &networkingv1beta1.GatewayClient{}) {
					t.Error("the server is not the provider's, or not the only one")
				}
				w.wantNothingPrivateToCross()
				w.release("rome", "paris", "res-a", test.after)
				w.wantEmpty()
			})
		})
	}
}

// Both agents are killed after every single write, including those of the handshake.
func TestNetworksOfAgentsThatAreKilledAtEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetworked(t)
		rome, paris := w.sites["rome"], w.sites["paris"]
		rome.deaths, paris.deaths = map[string]bool{}, map[string]bool{}
		w.reserve("rome", "paris", "res-a")
		w.until("both networks are connected", nil, w.bothConnected)
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		w.release("rome", "paris", "res-a", nil)
		w.wantEmpty()
		for _, step := range []string{"create Configuration paris", "create GatewayClient paris", "create Secret liqo-gateway-keys", "create PublicKey paris", "delete GatewayClient paris", "delete Configuration paris"} {
			if !rome.deaths[step] {
				t.Errorf("the consumer's agent was not killed at %q, but at %v", step, rome.deaths)
			}
		}
		for _, step := range []string{"create Configuration rome", "create GatewayServer rome", "create Secret liqo-gateway-keys", "create PublicKey rome", "delete GatewayServer rome", "delete Configuration rome"} {
			if !paris.deaths[step] {
				t.Errorf("the provider's agent was not killed at %q, but at %v", step, paris.deaths)
			}
		}
	})
}

// everySecond runs do once per second. Restarts in shorter intervals would not leave both sides
// the time to exchange their descriptions once.
func everySecond(do func(*world)) func(*world) {
	ticks := 0
	return func(w *world) {
		if ticks++; ticks%int(time.Second/tick) == 0 {
			do(w)
		}
	}
}

// wantNothingPrivateToCross looks for private keys in every message that the broker still has.
func (w *world) wantNothingPrivateToCross() {
	w.t.Helper()
	for id, peer := range map[string]string{"rome": "paris", "paris": "rome"} {
		var keys corev1.Secret
		if !w.exists(id, object.TenantNamespaceName(peer), object.GatewayKeysName, &keys) {
			w.t.Fatalf("%s has no gateway keys", id)
		}
		private := encodeBytes(w.t, keys.Data[consts.PrivateKeyField])
		for _, messages := range w.newest() {
			for _, m := range messages {
				if bytes.Contains(m.Body, private) {
					w.t.Errorf("the private key of %s is in message %s", id, m.Slot)
				}
			}
		}
	}
}

// A connected pair sends no messages until one side needs something.
func TestConnectedPairIsQuietAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetworked(t)
		w.reserve("rome", "paris", "res-a")
		w.until("both networks are connected", nil, w.bothConnected)
		w.run(20 * time.Second)
		sent := w.sent()
		w.run(20 * time.Second)
		if w.sent() != sent {
			t.Errorf("%d messages crossed for a connected pair", w.sent()-sent)
		}
		w.delete("paris", &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("rome"), Name: "rome"}})
		w.delete("paris", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("rome"), Name: object.GatewayKeysName}})
		w.lose("rome", "paris")
		w.lose("paris", "rome")
		w.until("they are connected anew", nil, w.bothConnected)
		w.release("rome", "paris", "res-a", nil)
		w.wantEmpty()
	})
}

// lose removes the connection, as a gateway does once its peer is gone.
func (w *world) lose(id, peer string) {
	w.t.Helper()
	w.delete(id, &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName(peer), Name: "gw-" + peer}})
}

func TestBothDirectionsShareOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetworked(t)
		w.reserve("rome", "paris", "res-a")
		w.reserve("paris", "rome", "res-b")
		w.until("both networks are connected", nil, w.bothConnected)
		w.run(5 * time.Second)
		servers := w.count(w.sites["rome"], &networkingv1beta1.GatewayServerList{}) + w.count(w.sites["paris"], &networkingv1beta1.GatewayServerList{})
		clients := w.count(w.sites["rome"], &networkingv1beta1.GatewayClientList{}) + w.count(w.sites["paris"], &networkingv1beta1.GatewayClientList{})
		if servers != 1 || clients != 1 {
			t.Errorf("%d servers and %d clients, want one of each", servers, clients)
		}
		w.release("rome", "paris", "res-a", nil)
		w.run(5 * time.Second)
		if !w.bothConnected() {
			t.Error("the other direction lost its network")
		}
		w.release("paris", "rome", "res-b", nil)
		w.wantEmpty()
	})
}

func TestForeignNetworkIsUsedAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetworked(t)
		w.reserve("rome", "paris", "res-a")
		w.until("both networks are connected", nil, w.bothConnected)
		for id, peer := range map[string]string{"rome": "paris", "paris": "rome"} {
			meta := metav1.ObjectMeta{Namespace: object.TenantNamespaceName(peer), Name: peer}
			for _, obj := range []client.Object{
				&networkingv1beta1.Configuration{ObjectMeta: meta}, &networkingv1beta1.GatewayServer{ObjectMeta: meta}, &networkingv1beta1.GatewayClient{ObjectMeta: meta},
			} {
				if w.exists(id, meta.Namespace, meta.Name, obj) {
					w.disown(id, obj)
				}
			}
		}
		w.restart("rome")
		w.restart("paris")
		w.run(5 * time.Second)
		w.release("rome", "paris", "res-a", nil)
		w.run(5 * time.Second)
		if !w.bothConnected() {
			t.Error("somebody else's network is gone")
		}
	})
}

func TestWithoutAnAgentTheNetworkIsConnectedThroughItsKubeconfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNetworked(t)
		w.sites["paris"].unattended = true
		w.reserve("rome", "paris", "res-a")
		w.until("both networks are connected", nil, w.bothConnected)
		w.setRelease("rome", "paris", "res-a", true)
		w.until("all instructions are gone", nil, func() bool { return !w.anyInstruction() })
		w.wantEmpty()
	})
}
