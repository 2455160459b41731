package liqo

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func isAnswer(m v1.Message) bool {
	return strings.HasSuffix(m.Slot, "/2")
}

// answer returns the newest answer to a provider, "" if there is none.
func (w *world) answer(provider string) string {
	w.t.Helper()
	for _, m := range w.newest()[provider] {
		if isAnswer(m) {
			return string(m.Body)
		}
	}
	return ""
}

// challenge sends a nonce of a hostile provider's choice to the consumer.
func (w *world) challenge(consumer, provider, placement string, nonce []byte) {
	w.t.Helper()
	m := handshake.Message{Consumer: consumer, Provider: provider, Placement: placement, Epoch: "of the attacker", Step: handshake.StepChallenge}
	w.deliver(&m, handshake.Challenge{TenantNamespace: object.TenantNamespaceName(consumer), Nonce: nonce})
}

// deliver delivers a message to the consumer, as its provider would send it.
func (w *world) deliver(m *handshake.Message, body any) {
	w.t.Helper()
	payload, _, err := handshake.Encode(m, body)
	w.check(err)
	w.check(w.sites[m.Consumer].peering.Deliver(w.t.Context(), m.Provider, append([]byte(m.Provider+"\n"), payload...)))
}

// stateOf runs Consume for the reservation's first placement and returns its state.
func (w *world) stateOf(consumer, reservation string) plan.ConsumerState {
	w.t.Helper()
	state, err := w.sites[consumer].peering.Consume(w.t.Context(), w.consumes(consumer, reservation))
	w.check(err)
	return state
}

// consumes returns the instruction of the first placement of a reservation. It counts as delivered once
// its node is Ready, like one whose status a controller writes.
func (w *world) consumes(consumer, reservation string) *agentv1alpha1.ReservationInstruction {
	w.t.Helper()
	var all agentv1alpha1.ReservationInstructionList
	w.check(w.sites[consumer].client.List(w.t.Context(), &all))
	for i := range all.Items {
		if inst := &all.Items[i]; inst.Spec.ReservationName == reservation {
			inst.Status.Delivered = inst.Status.Delivered || w.nodeReady(consumer, brokerv1alpha1.PlacementName(reservation, 1))
			return inst
		}
	}
	w.t.Fatalf("%s has no reservation %q", consumer, reservation)
	return nil
}

// advertise sets the provider's API server in the instruction, as the broker does.
func (w *world) advertise(consumer, endpoint string) {
	w.t.Helper()
	var all agentv1alpha1.ReservationInstructionList
	w.check(w.sites[consumer].client.List(w.t.Context(), &all))
	for i := range all.Items {
		all.Items[i].Spec.TargetClusterEndpoint = endpoint
		w.check(w.sites[consumer].client.Update(w.t.Context(), &all.Items[i]))
	}
}

func (w *world) recorded(consumer, provider string) string {
	w.t.Helper()
	var ns corev1.Namespace
	w.exists(consumer, "", object.TenantNamespaceName(provider), &ns)
	return ns.Annotations["broker.fluidos.eu/api-server"]
}

func TestProxiesMustBeAllowed(t *testing.T) {
	proxy := func(s string) *string { return &s }
	p := &Peering{opts: Options{Proxies: []string{"http://proxy.example:3128"}}}
	for name, tt := range map[string]struct {
		proxy *string
		ok    bool
	}{
		"none":                      {ok: true},
		"an empty one":              {proxy: proxy(""), ok: true},
		"an allowed one":            {proxy: proxy("http://proxy.example:3128"), ok: true},
		"one of this machine":       {proxy: proxy("http://127.0.0.1:39081")},
		"one that begins the same":  {proxy: proxy("http://proxy.example:3128.evil.example")},
		"the allowed one, and more": {proxy: proxy("http://proxy.example:3128/a")},
	} {
		t.Run(name, func(t *testing.T) {
			if err := p.checkProxy(tt.proxy); (err == nil) != tt.ok {
				t.Errorf("got %v, want ok %v", err, tt.ok)
			}
		})
	}
	if err := (&Peering{}).checkProxy(proxy("http://proxy.example:3128")); err == nil {
		t.Error("a proxy is allowed that nobody allowed")
	}
}

// Credentials with a server, proxy, CA, namespace or certificate that this cluster must not use do
// not become an Identity.
func TestCredentialsThatLeadElsewhereBecomeNoIdentity(t *testing.T) {
	for name, tt := range map[string]struct {
		advertised string
		change     func(*handshake.Credentials)
		check      error
		want       string
	}{
		"another API server":                       {advertised: "https://paris.example", change: func(c *handshake.Credentials) { c.APIServer = "https://169.254.169.254:443" }, want: "is not \"https://paris.example:443\""},
		"one that must not be dialled":             {change: func(c *handshake.Credentials) { c.APIServer = "https://127.0.0.1" }, check: errors.New("127.0.0.1 is a loopback address"), want: "loopback"},
		"an advertised one that is not, either":    {advertised: "https://127.0.0.1", change: func(c *handshake.Credentials) { c.APIServer = "https://127.0.0.1" }, check: errors.New("127.0.0.1 is a loopback address"), want: "loopback"},
		"a proxy":                                  {change: func(c *handshake.Credentials) { c.ProxyURL = new("http://127.0.0.1:39081") }, want: "proxy \"http://127.0.0.1:39081\" is not among the allowed proxies"},
		"a CA that is none":                        {change: func(c *handshake.Credentials) { c.CA = []byte("ca") }, want: "CA is not a list"},
		"a namespace that is none":                 {change: func(c *handshake.Credentials) { c.TenantNamespace = "../kube-system" }, want: "not a namespace name"},
		"a certificate that does not fit a Secret": {change: func(c *handshake.Credentials) { c.SignedCRT = bytes.Repeat([]byte("a"), 1<<20) }, want: "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.sites["paris"].silent = true
				w.sites["rome"].peering.opts.CheckEndpoint = func(context.Context, string) error { return tt.check }
				w.reserve("rome", "paris", "res-a")
				w.advertise("rome", tt.advertised)
				w.run(time.Second)
				c := handshake.Credentials{TenantNamespace: object.TenantNamespaceName("rome"), APIServer: "https://paris.example", SignedCRT: w.sites["rome"].key.Certificate(t, "rome")}
				tt.change(&c)
				w.deliver(&handshake.Message{Consumer: "rome", Provider: "paris", Placement: "res-a-1", Epoch: "e", Step: handshake.StepCredentials}, c)
				w.run(3 * time.Second)
				if w.exists("rome", object.TenantNamespaceName("paris"), object.IdentityName("paris"), &authv1beta1.Identity{}) {
					t.Error("there is an identity")
				}
				if state := w.stateOf("rome", "res-a"); state.Peered.Reason != "HandshakeRefused" || !strings.Contains(state.Peered.Message, tt.want) {
					t.Errorf("got %+v, want %q", state.Peered, tt.want)
				}
			})
		})
	}
}

func TestPeeringServerIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		checked := map[string]int{}
		w.sites["rome"].peering.opts.CheckEndpoint = func(_ context.Context, endpoint string) error {
			checked[endpoint]++
			if strings.Contains(endpoint, "169.254") {
				return errors.New("169.254.169.254 cannot be the address of an API server")
			}
			return nil
		}
		w.reserve("rome", "paris", "res-a")
		w.advertise("rome", "https://paris.example:443")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		if got := w.recorded("rome", "paris"); got != "https://paris.example:443 https://paris.example" {
			t.Errorf("recorded %q", got)
		}
		w.advertise("rome", "https://new.paris.example")
		w.until("a new address is recorded", nil, func() bool {
			return strings.HasPrefix(w.recorded("rome", "paris"), "https://new.paris.example ")
		})
		w.advertise("rome", "https://169.254.169.254")
		w.run(3 * time.Second)
		if got := w.recorded("rome", "paris"); !strings.HasPrefix(got, "https://new.paris.example ") {
			t.Errorf("recorded %q", got)
		}
		if n := checked["https://169.254.169.254"]; n != 1 {
			t.Errorf("a refused address was looked up %d times within seconds", n)
		}
		if state := w.stateOf("rome", "res-a"); state.Health.Reason != "HandshakeRefused" || !state.NodeReady.True {
			t.Errorf("got %+v", state)
		}
	})
}

func TestSliceWithForeignServerIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.advertise("rome", "https://paris.example")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		var slice authv1beta1.ResourceSlice
		w.check(w.sites["rome"].client.Get(t.Context(), client.ObjectKey{Namespace: object.TenantNamespaceName("paris"), Name: "res-a-1"}, &slice))
		slice.Status.AuthParams = &authv1beta1.AuthParams{APIServer: "https://169.254.169.254"}
		w.check(w.sites["rome"].client.Status().Update(t.Context(), &slice))
		if state := w.stateOf("rome", "res-a"); state.Health.Reason != "HandshakeRefused" || !strings.Contains(state.Health.Message, "169.254.169.254") {
			t.Errorf("got %+v", state.Health)
		}
	})
}
