package plan

import (
	"fmt"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// networkLook is how often a network that is not connected yet is looked at: of Secrets,
// and of what Liqo's IPAM does, nothing tells.
const networkLook = 2 * time.Second

// Verbs that connect the networks of two clusters, on both sides.
const (
	SendNetwork        Verb = "SendNetwork"
	AnswerNetwork      Verb = "AnswerNetwork"
	StopNetwork        Verb = "StopNetwork"
	WriteConfiguration Verb = "WriteConfiguration"
	WriteGatewayServer Verb = "WriteGatewayServer"
	WriteGatewayClient Verb = "WriteGatewayClient"
	WriteGatewayKeys   Verb = "WriteGatewayKeys"
	WritePublicKey     Verb = "WritePublicKey"
	YieldGatewayServer Verb = "YieldGatewayServer"
)

// NetworkView is what one side of a pair sees of the network between the two. It is the
// same for both directions of peering: two clusters have one network connection.
type NetworkView struct {
	// On is true where this cluster connects its network with the peer's.
	On         bool
	Self, Peer string
	// Provides is true on the provider's side: as Liqo has it, the gateway's server is there.
	Provides bool
	// Known is true when Liqo has said which networks this cluster has.
	Known bool

	Told          PeerNetworkView
	Configuration ConfigurationView
	Server        GatewayView
	Client        GatewayView
	PublicKey     PublicKeyView
	Connection    ConnectionView
}

// PeerNetworkView is what the peer says of its network.
type PeerNetworkView struct {
	// Asks is true when the peer said something and waits for this cluster.
	Asks bool
	// Fresh is true when what it said answers this cluster and is its latest.
	Fresh bool
	// Problem says why it cannot be used.
	Problem string
	// Serves is true when it has a gateway's server, Endpoint when that has an address, and
	// Key when it named the public key of its gateway.
	Serves, Endpoint, Key bool
}

// ConfigurationView is Liqo's record of the peer's networks.
type ConfigurationView struct {
	ObjectView
	// Current is true when it says what the peer says, Ready when Liqo has mapped that.
	Current, Ready bool
}

// GatewayView is this cluster's end of the tunnel.
type GatewayView struct {
	ObjectView
	// Current is true of a client that goes to the peer's server.
	Current bool
	// Keys is true when its key pair is there, and Address when a server has an address.
	Keys, Address bool
}

// PublicKeyView is the key by which this cluster's gateway knows the peer's.
type PublicKeyView struct {
	ObjectView
	Current bool
}

// ConnectionView is what Liqo's gateway says of the tunnel.
type ConnectionView struct {
	Connected bool
	// Failed is true when it was tried in vain.
	Failed bool
	// RoundTrip through the tunnel; 0 if it was not measured.
	RoundTrip time.Duration
}

// planNetwork decides what to do next for the network, and says where it is; an Aspect
// without reason where networks are not connected. A gateway that somebody else made is
// used as it is.
func planNetwork(v NetworkView) ([]Action, placement.Aspect) {
	switch {
	case !v.On:
		return nil, placement.Aspect{}
	case !v.Known:
		return nil, v.pending("waiting for Liqo to say which networks this cluster has: see whether its networking module runs")
	}
	actions := []Action{{Do: v.speech()}}
	if v.Connection.Connected && !v.Told.Fresh || v.foreign() {
		return actions, v.connection()
	}
	steps, state := planTunnel(v)
	return append(actions, steps...), state
}

// speech is how this cluster speaks to the peer: until the tunnel is up it says what it
// has, over and over, and afterwards only where the peer still waits.
func (v *NetworkView) speech() Verb {
	switch {
	case !v.Connection.Connected:
		return SendNetwork
	case v.Told.Asks:
		return AnswerNetwork
	}
	return StopNetwork
}

// foreign is true where somebody else connected the two networks.
func (v *NetworkView) foreign() bool {
	return v.Server.Exists && !v.Server.Ours || v.Client.Exists && !v.Client.Ours
}

func planTunnel(v NetworkView) ([]Action, placement.Aspect) {
	c := v.Configuration
	switch {
	case v.Told.Problem != "":
		return nil, v.pending("%s", v.Told.Problem)
	case !v.Told.Fresh:
		return nil, v.pending("waiting for what %q says of its network: its agent and its Liqo have to connect networks, too", v.Peer)
	case c.Terminating, v.Server.Terminating, v.Client.Terminating:
		return nil, v.pending("waiting until an earlier connection with %q is gone", v.Peer)
	case !c.Exists, c.Ours && !c.Current:
		return []Action{{Do: WriteConfiguration}}, v.pending("waiting for Liqo to map the network of %q", v.Peer)
	case !c.Ready:
		return nil, v.pending("waiting for Liqo to map the network of %q", v.Peer)
	case v.Server.Exists:
		return planServer(v)
	case v.Client.Exists, v.Told.Serves:
		return planClient(v)
	case v.Provides:
		return []Action{{Do: WriteGatewayServer}}, v.pending("waiting for an address of this cluster's gateway")
	}
	return nil, v.pending("waiting for the gateway of %q", v.Peer)
}

// planServer goes on where this cluster has the server. Two that began at the same time,
// one for each direction, agree on one by their names.
func planServer(v NetworkView) (actions []Action, state placement.Aspect) {
	if v.Told.Serves && v.Self > v.Peer {
		return []Action{{Do: YieldGatewayServer}}, v.pending("waiting for the gateway of %q", v.Peer)
	}
	actions = v.keys(v.Server)
	if !v.Server.Address {
		return actions, v.pending("waiting for an address of this cluster's gateway: see GatewayServer %q and its Service", v.Peer)
	}
	return actions, v.connection()
}

func planClient(v NetworkView) (actions []Action, state placement.Aspect) {
	if !v.Told.Endpoint {
		return nil, v.pending("waiting for an address of the gateway of %q", v.Peer)
	}
	if !v.Client.Exists || !v.Client.Current {
		return []Action{{Do: WriteGatewayClient}}, v.connection()
	}
	return v.keys(v.Client), v.connection()
}

// keys gives a gateway its own key pair and the peer's public key.
func (v *NetworkView) keys(gateway GatewayView) (actions []Action) {
	if !gateway.Keys {
		actions = append(actions, Action{Do: WriteGatewayKeys})
	}
	if v.Told.Key && (!v.PublicKey.Exists || v.PublicKey.Ours && !v.PublicKey.Current) {
		actions = append(actions, Action{Do: WritePublicKey})
	}
	return actions
}

func (v *NetworkView) connection() placement.Aspect {
	c := v.Connection
	switch {
	case c.Connected && c.RoundTrip > 0:
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonNetworkConnected, Message: fmt.Sprintf("the network of %q is %s away", v.Peer, c.RoundTrip)}
	case c.Connected:
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonNetworkConnected, Message: fmt.Sprintf("the network of %q is connected", v.Peer)}
	case c.Failed:
		return placement.Waiting(agentv1alpha1.ReasonNetworkFailed,
			"the gateways of this cluster and %q do not reach each other: see their logs, and whether UDP gets to the GatewayServer's endpoint", v.Peer)
	}
	return v.pending("waiting for the gateways of this cluster and %q to connect", v.Peer)
}

func (v *NetworkView) pending(format string, args ...any) placement.Aspect {
	return placement.Waiting(agentv1alpha1.ReasonNetworkPending, format, args...)
}

// LookAgainAfter is when to look again at a network.
func (v *NetworkView) LookAgainAfter() time.Duration {
	if !v.On || v.Connection.Connected {
		return 0
	}
	return networkLook
}
