package liqo

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// certificateOf returns the certificate in the consumer's Identity for the provider.
func (w *world) certificateOf(consumer, provider string) []byte {
	w.t.Helper()
	identity := &authv1beta1.Identity{}
	w.check(w.sites[consumer].client.Get(w.t.Context(), client.ObjectKey{Namespace: object.TenantNamespaceName(provider), Name: object.IdentityName(provider)}, identity))
	return identity.Spec.AuthParams.SignedCRT
}

// consumed runs Consume for a placement and returns its state.
func (w *world) consumed(consumer, name string) plan.ConsumerState {
	w.t.Helper()
	inst := &agentv1alpha1.ReservationInstruction{}
	w.exists(consumer, "default", name, inst)
	state, err := w.sites[consumer].peering.Consume(w.t.Context(), inst)
	w.check(err)
	return state
}

// Liqo renews an identity through the peering. If that fails for too long, the agent asks for a
// certificate through the broker, without an interruption.
func TestIdentityIsRenewedThroughTheBrokerBeforeItExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.lifetime = 30 * time.Second
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		first := w.certificateOf("rome", "paris")
		if again := w.consumed("rome", "res-a-1").Again; again == 0 || again > w.lifetime {
			t.Errorf("the certificate is looked at again after %s", again)
		}
		w.run(24 * time.Second)
		if !bytes.Equal(first, w.certificateOf("rome", "paris")) {
			t.Error("the identity was replaced before Liqo had its time to renew it")
		}
		w.run(5 * time.Second)
		if bytes.Equal(first, w.certificateOf("rome", "paris")) {
			t.Error("the identity was not renewed")
		}
		if peered := w.consumed("rome", "res-a-1").Peered; !peered.True {
			t.Errorf("the peering stopped: %+v", peered)
		}
	})
}

// After an outage longer than the certificate's lifetime, Liqo cannot reach the other cluster.
func TestExpiredIdentityIsReplacedAfterAnOutage(t *testing.T) {
	for name, away := range map[string]string{"of the consumer": "rome", "of the provider": "paris"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.lifetime = 30 * time.Second
				w.reserve("rome", "paris", "res-a")
				w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
				first := w.certificateOf("rome", "paris")
				w.sites[away].silent, w.sites[away].cut = true, true
				w.mail = map[string]v1.Message{}
				w.run(40 * time.Second)
				if !bytes.Equal(first, w.certificateOf("rome", "paris")) || w.connected("rome", "paris") {
					t.Fatal("there was no outage")
				}
				w.sites[away].silent, w.sites[away].cut = false, false
				w.until("the peering works again", nil, func() bool { return w.connected("rome", "paris") })
				if state := w.consumed("rome", "res-a-1"); !state.Peered.True || state.Phase != agentv1alpha1.InstructionActive {
					t.Errorf("after the outage: %s, %+v", state.Phase, state.Peered)
				}
				w.release("rome", "paris", "res-a", nil)
				w.wantEmpty()
			})
		})
	}
}
