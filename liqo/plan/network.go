package plan

import (
	"fmt"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// networkLook is the delay between two checks of a network connection that is being set up or
// removed. Watches are not enough: the agent watches neither the gateways' Secrets nor the progress
// of Liqo's IPAM.
const networkLook = 2 * time.Second

// Verbs for connecting the networks of two clusters. Consumer and provider use all of them.
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

// NetworkView is what exists in one cluster for the network connection with a peer. If two clusters
// lend to each other, both peerings share the connection.
type NetworkView struct {
	// On is true if this cluster connects its network with the networks of its peers.
	On         bool
	Self, Peer string
	// Provides is true in the provider's cluster. As in Liqo, the gateway server runs there, and
	// the client in the consumer's cluster.
	Provides bool
	// Known is true when Liqo has assigned CIDRs to the networks of this cluster.
	Known bool

	Told          PeerNetworkView
	Configuration ConfigurationView
	Server        GatewayView
	Client        GatewayView
	PublicKey     PublicKeyView
	Connection    ConnectionView
}

// PeerNetworkView summarizes the peer's newest message about its network.
type PeerNetworkView struct {
	// Asks is true when the message says that the peer is not connected yet and needs an answer.
	Asks bool
	// Fresh is true when the message can be used and is not outdated: it names the current epoch of
	// this cluster and a placement that has not ended.
	Fresh bool
	// Problem says why the message cannot be used; it is empty if it can.
	Problem string
	// Serves is true when the peer has a gateway server. Endpoint is true when that server has an
	// address. Key is true when the message contains the public key of the peer's gateway. They are
	// false unless Fresh is true.
	Serves, Endpoint, Key bool
}

// ConfigurationView is the Configuration object in which Liqo keeps the CIDRs of the peer's
// networks.
type ConfigurationView struct {
	ObjectView
	// Current is true when the object equals the peer's message. Ready is true when Liqo has mapped
	// the peer's networks to CIDRs that are free in this cluster.
	Current, Ready bool
}

// GatewayView is this cluster's end of the tunnel, a gateway server or a gateway client.
type GatewayView struct {
	ObjectView
	// Current is true for a gateway client that connects to the endpoint in the peer's message.
	Current bool
	// Keys is true when the gateway's key pair exists. Address is true when a gateway server has an
	// address.
	Keys, Address bool
}

// PublicKeyView is the PublicKey object by which this cluster's gateway authenticates the peer's
// gateway. Current is true when the object holds the key in the peer's message and belongs to the
// current gateway.
type PublicKeyView struct {
	ObjectView
	Current bool
}

// ConnectionView is the state of the tunnel, as Liqo's gateway reports it.
type ConnectionView struct {
	Connected bool
	// Failed is true when Liqo's gateway reports that it could not connect.
	Failed bool
	// RoundTrip is the round-trip time through the tunnel; 0 if it was not measured.
	RoundTrip time.Duration
}

// planNetwork returns the next actions for the network, and its state. The state is empty if this
// cluster does not connect networks. If the agent did not make the gateway, planNetwork changes no
// objects: it only sends messages and reports the state of the connection.
func planNetwork(v NetworkView) ([]Action, placement.Aspect) {
	switch {
	case !v.On:
		return nil, placement.Aspect{}
	case !v.Known:
		return nil, v.pendingAspect("waiting for Liqo to publish this cluster's networks: check that its networking module runs")
	}
	actions := []Action{{Do: v.messageVerb()}}
	if v.Connection.Connected && !v.Told.Fresh || v.usesForeignGateway() {
		return actions, v.connectionAspect()
	}
	steps, state := planTunnel(v)
	return append(actions, steps...), state
}

// messageVerb returns how this cluster sends the description of its network to the peer: repeatedly
// until the tunnel is up, and after that only as an answer to a peer that is not connected yet.
func (v *NetworkView) messageVerb() Verb {
	switch {
	case !v.Connection.Connected:
		return SendNetwork
	case v.Told.Asks:
		return AnswerNetwork
	}
	return StopNetwork
}

func (v *NetworkView) usesForeignGateway() bool {
	return v.Server.Exists && !v.Server.Ours || v.Client.Exists && !v.Client.Ours
}

func planTunnel(v NetworkView) ([]Action, placement.Aspect) {
	c := v.Configuration
	switch {
	case v.Told.Problem != "":
		return nil, v.pendingAspect("%s", v.Told.Problem)
	case !v.Told.Fresh:
		return nil, v.pendingAspect("waiting for the network description of %q: its agent and its Liqo must connect networks, too", v.Peer)
	case c.Terminating, v.Server.Terminating, v.Client.Terminating:
		return nil, v.pendingAspect("waiting until an earlier connection with %q is gone", v.Peer)
	case !c.Exists, c.Ours && !c.Current:
		return []Action{{Do: WriteConfiguration}}, v.pendingAspect("waiting for Liqo to map the network of %q", v.Peer)
	case !c.Ready:
		return nil, v.pendingAspect("waiting for Liqo to map the network of %q", v.Peer)
	case v.Server.Exists:
		return planServer(v)
	case v.Client.Exists, v.Told.Serves:
		return planClient(v)
	case v.Provides:
		return []Action{{Do: WriteGatewayServer}}, v.pendingAspect("waiting for an address of this cluster's gateway")
	}
	return nil, v.pendingAspect("waiting for the gateway of %q", v.Peer)
}

// planServer yields if both clusters, which lend to each other, have a server and this one has the greater ID.
func planServer(v NetworkView) (actions []Action, state placement.Aspect) {
	if v.Told.Serves && v.Self > v.Peer {
		return []Action{{Do: YieldGatewayServer}}, v.pendingAspect("waiting for the gateway of %q", v.Peer)
	}
	actions = v.planKeys(v.Server)
	if !v.Server.Address {
		return actions, v.pendingAspect("waiting for an address of this cluster's gateway: see GatewayServer %q and its Service", v.Peer)
	}
	return actions, v.connectionAspect()
}

func planClient(v NetworkView) (actions []Action, state placement.Aspect) {
	if !v.Told.Endpoint {
		return nil, v.pendingAspect("waiting for an address of the gateway of %q", v.Peer)
	}
	if !v.Client.Exists || !v.Client.Current {
		return []Action{{Do: WriteGatewayClient}}, v.connectionAspect()
	}
	return v.planKeys(v.Client), v.connectionAspect()
}

// planKeys returns the actions that give a gateway its own key pair and the peer's public key.
func (v *NetworkView) planKeys(gateway GatewayView) (actions []Action) {
	if !gateway.Keys {
		actions = append(actions, Action{Do: WriteGatewayKeys})
	}
	if v.Told.Key && (!v.PublicKey.Exists || v.PublicKey.Ours && !v.PublicKey.Current) {
		actions = append(actions, Action{Do: WritePublicKey})
	}
	return actions
}

func (v *NetworkView) connectionAspect() placement.Aspect {
	c := v.Connection
	switch {
	case c.Connected && c.RoundTrip > 0:
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonNetworkConnected, Message: fmt.Sprintf("the network of %q is %s away", v.Peer, c.RoundTrip)}
	case c.Connected:
		return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonNetworkConnected, Message: fmt.Sprintf("the network of %q is connected", v.Peer)}
	case c.Failed:
		return placement.Waiting(agentv1alpha1.ReasonNetworkFailed,
			"the gateways of this cluster and %q do not reach each other: check their logs, and that UDP reaches the GatewayServer's endpoint", v.Peer)
	}
	return v.pendingAspect("waiting for the gateways of this cluster and %q to connect", v.Peer)
}

func (v *NetworkView) pendingAspect(format string, args ...any) placement.Aspect {
	return placement.Waiting(agentv1alpha1.ReasonNetworkPending, format, args...)
}

// IsUnderWay reports whether the network is being set up without a known problem, so that it will
// probably be connected soon. It returns false while neither cluster has a gateway server.
func (v *NetworkView) IsUnderWay() bool {
	c := v.Connection
	return v.On && v.Known && !c.Connected && !c.Failed && v.Told.Fresh && v.Told.Problem == "" &&
		(v.Told.Serves || v.Server.IsUsable())
}

// LookAgainAfter returns the delay until the next check of the network; 0 if none is needed.
func (v *NetworkView) LookAgainAfter() time.Duration {
	if !v.On || v.Connection.Connected {
		return 0
	}
	return networkLook
}
