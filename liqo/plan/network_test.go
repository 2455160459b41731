package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// mapped returns the view of a network that the peer has described and Liqo has mapped.
func mapped(change func(*NetworkView)) NetworkView {
	v := NetworkView{
		On: true, Self: "paris", Peer: "rome", Provides: true, Known: true,
		Told:          PeerNetworkView{Asks: true, Fresh: true},
		Configuration: ConfigurationView{ObjectView: ours, Current: true, Ready: true},
	}
	change(&v)
	return v
}

func consumes(v *NetworkView) { v.Self, v.Peer, v.Provides = "rome", "paris", false }

func TestPlanNetwork(t *testing.T) {
	server := GatewayView{ObjectView: ours, Keys: true, Address: true}
	toClient := GatewayView{ObjectView: ours, Current: true, Keys: true}
	tests := map[string]struct {
		change func(*NetworkView)
		want   []Verb
		reason string
		// says is a text that the message of the returned state must contain.
		says string
	}{
		"nobody connects networks": {change: func(v *NetworkView) { v.On = false }},
		"Liqo has not said which networks are here": {
			change: func(v *NetworkView) { v.Known = false }, reason: agentv1alpha1.ReasonNetworkPending, says: "networking module",
		},
		"the peer has said nothing": {
			change: func(v *NetworkView) { v.Told = PeerNetworkView{} }, want: []Verb{SendNetwork}, reason: agentv1alpha1.ReasonNetworkPending, says: `network description of "rome"`,
		},
		"the peer says what nobody can use": {
			change: func(v *NetworkView) { v.Told = PeerNetworkView{Problem: "port 0"} }, want: []Verb{SendNetwork}, reason: agentv1alpha1.ReasonNetworkPending, says: "port 0",
		},
		"its networks are written down": {
			change: func(v *NetworkView) { v.Configuration = ConfigurationView{} }, want: []Verb{SendNetwork, WriteConfiguration}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"and again when they change": {
			change: func(v *NetworkView) { v.Configuration.Current = false }, want: []Verb{SendNetwork, WriteConfiguration}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"those that somebody else wrote down are left": {
			change: func(v *NetworkView) { v.Configuration = ConfigurationView{ObjectView: theirs, Ready: true} },
			want:   []Verb{SendNetwork, WriteGatewayServer}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"Liqo maps them first": {
			change: func(v *NetworkView) { v.Configuration.Ready = false }, want: []Verb{SendNetwork}, reason: agentv1alpha1.ReasonNetworkPending, says: "map",
		},
		"an earlier gateway goes first": {
			change: func(v *NetworkView) { v.Server.Exists, v.Server.Ours, v.Server.Terminating = true, true, true },
			want:   []Verb{SendNetwork}, reason: agentv1alpha1.ReasonNetworkPending, says: "earlier",
		},
		"the provider has the server": {
			change: func(*NetworkView) {}, want: []Verb{SendNetwork, WriteGatewayServer}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"the server gets keys and an address": {
			change: func(v *NetworkView) { v.Server.ObjectView = ours }, want: []Verb{SendNetwork, WriteGatewayKeys}, reason: agentv1alpha1.ReasonNetworkPending, says: `GatewayServer "rome"`,
		},
		"the server learns the client's key": {
			change: func(v *NetworkView) { v.Server, v.Told.Key = server, true },
			want:   []Verb{SendNetwork, WritePublicKey}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"and another one later": {
			change: func(v *NetworkView) { v.Server, v.Told.Key, v.PublicKey.ObjectView = server, true, ours },
			want:   []Verb{SendNetwork, WritePublicKey}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"the consumer waits for the server": {
			change: consumes, want: []Verb{SendNetwork}, reason: agentv1alpha1.ReasonNetworkPending, says: `gateway of "paris"`,
		},
		"and for its address": {
			change: func(v *NetworkView) { consumes(v); v.Told.Serves = true },
			want:   []Verb{SendNetwork}, reason: agentv1alpha1.ReasonNetworkPending, says: "address",
		},
		"then it has the client": {
			change: func(v *NetworkView) { consumes(v); v.Told.Serves, v.Told.Endpoint = true, true },
			want:   []Verb{SendNetwork, WriteGatewayClient}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"which follows the server elsewhere": {
			change: func(v *NetworkView) {
				consumes(v)
				v.Told.Serves, v.Told.Endpoint, v.Client = true, true, GatewayView{ObjectView: ours, Keys: true}
			},
			want: []Verb{SendNetwork, WriteGatewayClient}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"both get their keys": {
			change: func(v *NetworkView) {
				consumes(v)
				v.Told.Serves, v.Told.Endpoint, v.Told.Key, v.Client = true, true, true, GatewayView{ObjectView: ours, Current: true}
			},
			want: []Verb{SendNetwork, WriteGatewayKeys, WritePublicKey}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"a provider whose consumer has the server has the client": {
			change: func(v *NetworkView) { v.Told.Serves, v.Told.Endpoint = true, true },
			want:   []Verb{SendNetwork, WriteGatewayClient}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"of two servers the one with the later name yields": {
			change: func(v *NetworkView) { v.Self, v.Peer, v.Server, v.Told.Serves = "rome", "paris", server, true },
			want:   []Verb{SendNetwork, YieldGatewayServer}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"and the other one stays": {
			change: func(v *NetworkView) { v.Server, v.Told.Serves = server, true },
			want:   []Verb{SendNetwork}, reason: agentv1alpha1.ReasonNetworkPending,
		},
		"the tunnel is up, and the peer still waits": {
			change: func(v *NetworkView) {
				consumes(v)
				v.Client, v.Connection.Connected, v.Told.Endpoint = toClient, true, true
			},
			want: []Verb{AnswerNetwork}, reason: agentv1alpha1.ReasonNetworkConnected,
		},
		"the tunnel is up on both sides": {
			change: func(v *NetworkView) {
				v.Server, v.Connection, v.Told = server, ConnectionView{Connected: true, RoundTrip: 12e6}, PeerNetworkView{}
			},
			want: []Verb{StopNetwork}, reason: agentv1alpha1.ReasonNetworkConnected, says: "12ms away",
		},
		"the tunnel fails": {
			change: func(v *NetworkView) { v.Server, v.Connection.Failed = server, true },
			want:   []Verb{SendNetwork}, reason: agentv1alpha1.ReasonNetworkFailed, says: "UDP",
		},
		"somebody else's gateway is used as it is": {
			change: func(v *NetworkView) {
				v.Server.ObjectView, v.Told.Key, v.Configuration = theirs, true, ConfigurationView{}
			},
			want: []Verb{SendNetwork}, reason: agentv1alpha1.ReasonNetworkPending,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actions, state := planNetwork(mapped(test.change))
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if state.Reason != test.reason || !strings.Contains(state.Message, test.says) || state.True != (test.reason == agentv1alpha1.ReasonNetworkConnected) {
				t.Errorf("state %+v, want reason %q and %q", state, test.reason, test.says)
			}
		})
	}
}

func TestNetworkIsRemovedWithItsLastUser(t *testing.T) {
	tests := map[string]struct {
		home HomeView
		want []Verb
		done bool
	}{
		"another reservation of the pair stands":        {home: HomeView{Namespace: ours, Gateways: 1, Configured: true, Needed: true}, done: true},
		"a peering of somebody else's uses it":          {home: HomeView{Namespace: ours, Gateways: 1, Configured: true, Roots: 1}, done: true},
		"gateways go first":                             {home: HomeView{Namespace: ours, Gateways: 1, Configured: true}, want: []Verb{DeleteGateways}},
		"then what was mapped":                          {home: HomeView{Namespace: ours, Configured: true}, want: []Verb{DeleteConfiguration}},
		"not before they are gone":                      {home: HomeView{Namespace: ours, Gateways: 1, Leaving: 1, Configured: true}},
		"then the namespace":                            {home: HomeView{Namespace: ours}, want: []Verb{DeleteNamespace}},
		"from somebody else's namespace, too":           {home: HomeView{Namespace: theirs, Gateways: 1}, want: []Verb{DeleteGateways}},
		"beside a record that somebody else made":       {home: HomeView{Namespace: ours, Gateways: 1, Mapped: true}, want: []Verb{DeleteGateways}},
		"which stays, and with it the namespace":        {home: HomeView{Namespace: ours, Mapped: true}, done: true},
		"somebody else's namespace stays all by itself": {home: HomeView{Namespace: theirs}, done: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			actions, done := planHome(test.home)
			if diff := cmp.Diff(test.want, verbs(actions)); diff != "" || done != test.done {
				t.Errorf("done %t, want %t; actions (-want +got):\n%s", done, test.done, diff)
			}
		})
	}
}

// The broker gives a placement more time while this cluster reports that only the network is
// missing. This cluster reports it only while the network is being set up: without a known problem,
// and with a gateway server in one of the clusters.
func TestNodeWaitsForItsNetworkAlone(t *testing.T) {
	waiting := func(change func(*ConsumerView)) ConsumerView {
		return consumer(func(v *ConsumerView) {
			v.Node.Ready = false
			v.Network = mapped(consumes)
			v.Network.Told.Serves = true
			change(v)
		})
	}
	tests := map[string]struct {
		change func(*ConsumerView)
		want   bool
	}{
		"the provider's gateway has no address yet":    {change: func(*ConsumerView) {}, want: true},
		"it has one, and the tunnel is not up":         {change: func(v *ConsumerView) { v.Network.Told.Endpoint = true }, want: true},
		"this cluster has the server":                  {change: func(v *ConsumerView) { v.Network.Told.Serves, v.Network.Server = false, GatewayView{ObjectView: ours} }, want: true},
		"the node is Ready":                            {change: func(v *ConsumerView) { v.Node.Ready = true }},
		"the virtual kubelet has not started":          {change: func(v *ConsumerView) { v.Node = NodeView{} }},
		"the identity is missing":                      {change: func(v *ConsumerView) { v.Identity = IdentityView{} }},
		"networks are not connected here":              {change: func(v *ConsumerView) { v.Network = NetworkView{} }},
		"the provider has said nothing of its network": {change: func(v *ConsumerView) { v.Network.Told = PeerNetworkView{} }},
		"it has no gateway":                            {change: func(v *ConsumerView) { v.Network.Told.Serves = false }},
		"it sends what cannot be used":                 {change: func(v *ConsumerView) { v.Network.Told.Problem = "port 0" }},
		"the tunnel failed":                            {change: func(v *ConsumerView) { v.Network.Connection.Failed = true }},
		"the tunnel is up":                             {change: func(v *ConsumerView) { v.Network.Connection.Connected = true }},
		"the placement ends":                           {change: func(v *ConsumerView) { v.Release = true }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, s := ForConsumer(waiting(test.change)); s.Connecting != test.want {
				t.Errorf("got %t, want %t", s.Connecting, test.want)
			}
		})
	}
}
