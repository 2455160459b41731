package liqo

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// These tests run both sides of a peering against two API servers in memory. A stand-in for Liqo
// (fakeliqo_test.go) works between them. Time is synctest's.

func TestTwoClustersPeerAndPart(t *testing.T) {
	tests := map[string]struct {
		// after is called after each tick.
		after func(*world)
	}{
		"undisturbed":                         {after: func(*world) {}},
		"the consumer restarts at every step": {after: func(w *world) { w.restart("rome") }},
		"the provider restarts at every step": {after: func(w *world) { w.restart("paris") }},
		"both restart at every step":          {after: func(w *world) { w.restart("rome"); w.restart("paris") }},
		"every third message is lost":         {after: func(w *world) { w.loseMail() }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.reserve("rome", "paris", "res-a")
				w.until("the node is ready", test.after, func() bool { return w.nodeReady("rome", "res-a-1") })
				w.release("rome", "paris", "res-a", test.after)
				w.wantEmpty()
			})
		})
	}
}

// Liqo does not repeat a failed update by itself. The consumer's certificate request gets lost in the same way.
func TestLostChangeIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		paris := w.sites["paris"]
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		requests := func(id, namespace, cpu string) bool {
			slice := &authv1beta1.ResourceSlice{}
			return w.exists(id, namespace, "res-a-1", slice) && slice.Spec.Resources.Cpu().Equal(resource.MustParse(cpu))
		}
		paris.refusing = true
		w.resize("rome", "paris", "res-a-1", listOf("cpu", "2"))
		w.until("the consumer requests more", nil, func() bool { return requests("rome", object.TenantNamespaceName("paris"), "2") })
		w.run(time.Second)
		paris.refusing = false
		w.until("the provider has it", nil, func() bool { return requests("paris", object.TenantNamespaceName("rome"), "2") })
	})
}

// resize changes a placement as the broker would, once the provider has agreed.
func (w *world) resize(consumer, provider, placement string, resources corev1.ResourceList) {
	w.t.Helper()
	there, here := &agentv1alpha1.ProviderInstruction{}, &agentv1alpha1.ReservationInstruction{}
	w.exists(provider, "default", placement, there)
	there.Spec.Resources = resources
	w.check(w.sites[provider].client.Update(w.t.Context(), there))
	w.exists(consumer, "default", placement, here)
	here.Spec.Resources = resources
	w.check(w.sites[consumer].client.Update(w.t.Context(), here))
}

func TestSecondPlacementNeedsNoHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the first node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		sent := w.sent()
		w.reserve("rome", "paris", "res-b")
		w.until("the second node is ready", nil, func() bool { return w.nodeReady("rome", "res-b-1") })
		if w.sent() != sent {
			t.Errorf("%d messages crossed for a warm pair", w.sent()-sent)
		}
		w.release("rome", "paris", "res-a", nil)
		if !w.nodeReady("rome", "res-b-1") {
			t.Error("the other placement's node is gone")
		}
		w.release("rome", "paris", "res-b", nil)
		w.wantEmpty()
	})
}

func TestPlacementsThatLeaveTogetherLeaveNothing(t *testing.T) {
	for name, worldOf := range map[string]func(*testing.T) *world{"with an agent at the provider": newWorld, "without": unattended} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := worldOf(t)
				for _, name := range []string{"res-a", "res-b", "res-c"} {
					w.reserve("rome", "paris", name)
					w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", name+"-1") })
				}
				for _, name := range []string{"res-a", "res-b", "res-c"} {
					w.setRelease("rome", "paris", name, true)
				}
				w.until("all instructions are gone", nil, func() bool { return !w.anyInstruction() })
				w.wantEmpty()
			})
		})
	}
}

func TestOtherDirectionKeepsItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.reserve("paris", "rome", "res-b")
		w.until("both nodes are ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") && w.nodeReady("paris", "res-b-1") })
		w.release("rome", "paris", "res-a", nil)
		if !w.nodeReady("paris", "res-b-1") || !w.exists("paris", object.TenantNamespaceName("rome"), object.IdentityName("rome"), &authv1beta1.Identity{}) {
			t.Error("the other direction lost its node or its identity")
		}
		if w.exists("rome", object.TenantNamespaceName("paris"), object.IdentityName("paris"), &authv1beta1.Identity{}) {
			t.Error("the identity of the direction that ended is still there")
		}
		w.release("paris", "rome", "res-b", nil)
		w.wantEmpty()
	})
}

func TestPeeringHeals(t *testing.T) {
	tests := map[string]struct {
		harm func(*world)
	}{
		"the consumer's identity is deleted": {harm: func(w *world) {
			w.delete("rome", &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("paris"), Name: object.IdentityName("paris")}})
		}},
		"the provider's Tenant is deleted": {harm: func(w *world) {
			w.delete("paris", &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("rome"), Name: "rome"}})
		}},
		"Tenant and nonce are deleted": {harm: func(w *world) {
			w.delete("paris", &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("rome"), Name: "rome"}})
			w.delete("paris", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("rome"), Name: object.NonceSecretName}})
		}},
		"everything of both is forgotten, and the identity too": {harm: func(w *world) {
			w.restart("rome")
			w.restart("paris")
			w.delete("rome", &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("paris"), Name: object.IdentityName("paris")}})
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.reserve("rome", "paris", "res-a")
				w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
				test.harm(w)
				w.reserve("rome", "paris", "res-b")
				w.until("another node is ready", nil, func() bool { return w.nodeReady("rome", "res-b-1") })
				if !w.nodeReady("rome", "res-a-1") {
					t.Error("the first node is gone")
				}
			})
		})
	}
}

func TestKeyChangesOnlyWhileUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		w.newKey("rome")
		w.reserve("rome", "paris", "res-b")
		w.run(time.Minute)
		if w.nodeReady("rome", "res-b-1") {
			t.Error("another key was taken while the first placement runs with the old one")
		}
		// The consumer cannot remove its replica with the new key, so a person does.
		replica := &authv1beta1.ResourceSlice{}
		if !w.exists("paris", object.TenantNamespaceName("rome"), "res-a-1", replica) {
			t.Fatal("there is no replica")
		}
		w.takeDown(replica, "rome", "paris")
		w.until("both nodes are ready with the new key", nil, func() bool {
			return w.nodeReady("rome", "res-a-1") && w.nodeReady("rome", "res-b-1")
		})
	})
}

// Liqo renews the certificate in the Identity by itself. After that, the credentials of the
// handshake are older, and the broker may still deliver them again.
func TestRenewedCertificateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		identity := &authv1beta1.Identity{}
		w.exists("rome", object.TenantNamespaceName("paris"), object.IdentityName("paris"), identity)
		identity.Spec.AuthParams.SignedCRT = append([]byte("renewed\n"), identity.Spec.AuthParams.SignedCRT...)
		renewed := string(identity.Spec.AuthParams.SignedCRT)
		w.check(w.sites["rome"].client.Update(t.Context(), identity))
		w.restart("rome")
		w.restart("paris")
		w.reserve("rome", "paris", "res-b")
		w.until("another node is ready", nil, func() bool { return w.nodeReady("rome", "res-b-1") })
		w.run(10 * time.Second)
		w.exists("rome", object.TenantNamespaceName("paris"), object.IdentityName("paris"), identity)
		if string(identity.Spec.AuthParams.SignedCRT) != renewed {
			t.Error("the certificate of before the renewal is back")
		}
	})
}

func TestMessagesOfEarlierPeeringAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		w.release("rome", "paris", "res-a", nil)
		old := w.newest()
		w.reserve("rome", "paris", "res-b")
		w.restart("rome")
		w.restart("paris")
		for to, messages := range old {
			for _, m := range messages {
				runtest.Check(t, w.sites[to].peering.Deliver(t.Context(), m.From, m.Body))
			}
		}
		w.sites["rome"].step(w)
		if w.exists("rome", object.TenantNamespaceName("paris"), object.IdentityName("paris"), &authv1beta1.Identity{}) {
			t.Error("credentials of an earlier peering became an identity")
		}
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-b-1") })
	})
}

func TestForeignPeeringIsUsedAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		w.disown("rome", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.TenantNamespaceName("paris")}})
		w.disown("rome", &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("paris"), Name: object.IdentityName("paris")}})
		w.disown("paris", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.TenantNamespaceName("rome")}})
		w.disown("paris", &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("rome"), Name: "rome"}})
		w.release("rome", "paris", "res-a", nil)
		if !w.exists("rome", object.TenantNamespaceName("paris"), object.IdentityName("paris"), &authv1beta1.Identity{}) ||
			!w.exists("paris", object.TenantNamespaceName("rome"), "rome", &authv1beta1.Tenant{}) {
			t.Error("a person's identity or Tenant was removed")
		}
		w.reserve("rome", "paris", "res-b")
		w.until("a node is ready through the person's peering", nil, func() bool { return w.nodeReady("rome", "res-b-1") })
	})
}

func TestImmediateReleaseLeavesNothing(t *testing.T) {
	for delay := range 12 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.reserve("rome", "paris", "res-a")
			w.run(time.Duration(delay) * tick)
			w.release("rome", "paris", "res-a", nil)
			w.wantEmpty()
		})
	}
}

// The placement that asked for credentials may end before they arrive. The provider already has a
// Tenant, so it sends nothing unasked.
func TestPlacementContinuesTheHandshakeOfAnEndedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		w.sites["paris"].silent = true
		w.delete("rome", &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName("paris"), Name: object.IdentityName("paris")}})
		w.run(5 * time.Second)
		w.reserve("rome", "paris", "res-b")
		w.run(5 * time.Second)
		w.setRelease("rome", "paris", "res-a", false)
		w.run(5 * time.Second)
		w.sites["paris"].silent = false
		w.until("the other node is ready", nil, func() bool { return w.nodeReady("rome", "res-b-1") })
	})
}
