package plan

import (
	"fmt"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// networkLook is how often to check a network that is not connected yet. Its Secrets and the
// progress of Liqo's IPAM are not watched.
const networkLook = 2 * time.Second

// Verbs that connect the networks of two clusters, for both sides.
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

// NetworkView is one side's observation of the network between two clusters. Both directions
// of peering share it, because two clusters have one network connection.
type NetworkView struct {
	// On is true where this cluster connects its network with the peer's.
	On         bool
	Self, Peer string
	// Provides is true on the provider's side. As in Liqo, that side has the gateway server.
	Provides bool
	// Known is true when Liqo has assigned the networks of this cluster.
	Known bool

	Told          PeerNetworkView
	Configuration ConfigurationView
	Server        GatewayView
	Client        GatewayView
	PublicKey     PublicKeyView
	Connection    ConnectionView
}

// PeerNetworkView summarizes the peer's last message about its network.
type PeerNetworkView struct {
	// Asks is true when the peer's message says that the peer is not connected yet.
	Asks bool
	// Fresh is true when the message names this cluster's current epoch and a live placement.
	Fresh bool
	// Problem says why the message cannot be used.
	Problem string
	// Serves is true when the peer has a gateway server; Endpoint when that server has an
	// address; Key when the message names the public key of the peer's gateway.
	Serves, Endpoint, Key bool
}

// ConfigurationView is the Configuration, Liqo's record of the peer's networks.
type ConfigurationView struct {
	ObjectView
	// Current is true when the record equals the peer's message; Ready when Liqo has mapped
	// the networks.
	Current, Ready bool
}

// GatewayView is this cluster's end of the tunnel.
type GatewayView struct {
	ObjectView
	// Current is true for a client that connects to the peer's server.
	Current bool
	// Keys is true when the gateway's key pair exists; Address when a server has an address.
	Keys, Address bool
}

// PublicKeyView is the PublicKey by which this cluster's gateway recognizes the peer's.
type PublicKeyView struct {
	ObjectView
	Current bool
}

// ConnectionView is the state of the tunnel, as Liqo's gateway reports it.
type ConnectionView struct {
	Connected bool
	// Failed is true when the gateway could not connect.
	Failed bool
	// RoundTrip is the round-trip time through the tunnel; 0 if it was not measured.
	RoundTrip time.Duration
}

// planNetwork returns the next actions for the network, and its state. The state has no
// reason if networks are not connected. A gateway that the agent did not make is used as it
// is.
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

// messageVerb returns how this cluster sends its description to the peer: repeatedly until the
// tunnel is up, and afterwards only in answer to a peer that still waits.
func (v *NetworkView) messageVerb() Verb {
	switch {
	case !v.Connection.Connected:
		return SendNetwork
	case v.Told.Asks:
		return AnswerNetwork
	}
	return StopNetwork
}

// usesForeignGateway reports whether the connection uses a gateway that the agent did not make.
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

// planServer continues with this cluster's gateway server. If both clusters made a server at
// the same time, one for each direction, the cluster with the greater ID deletes its own.
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

// IsUnderWay reports whether both sides set up the network and only wait for gateways, addresses or
// the tunnel. A peer that has said nothing of a gateway does not count.
func (v *NetworkView) IsUnderWay() bool {
	c := v.Connection
	return v.On && v.Known && !c.Connected && !c.Failed && v.Told.Fresh && v.Told.Problem == "" &&
		(v.Told.Serves || v.Server.IsUsable())
}

// LookAgainAfter returns when to check the network again; 0 for never.
func (v *NetworkView) LookAgainAfter() time.Duration {
	if !v.On || v.Connection.Connected {
		return 0
	}
	return networkLook
}
