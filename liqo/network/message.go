package network

import (
	"crypto/ecdh"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
)

// Limits of the description that a peer sends of its network.
const (
	mostCIDRs     = 16
	mostAddresses = 16
)

// Network is the body of the messages with which one side describes its network to the other. No
// part of it is secret.
type Network struct {
	// Pod and External are the CIDRs of the sender's networks.
	Pod      []networkingv1beta1.CIDR `json:"pod"`
	External []networkingv1beta1.CIDR `json:"external"`
	// Serves is true when the sender has a gateway server. Endpoint is its address, nil until it has one.
	Serves   bool                              `json:"serves,omitempty"`
	Endpoint *networkingv1beta1.EndpointStatus `json:"endpoint,omitempty"`
	// PublicKey is the WireGuard public key of the sender's gateway, empty until it has one.
	PublicKey []byte `json:"publicKey,omitempty"`
	// Connected is true when the sender's gateway is connected. The sender then needs no answer.
	Connected bool `json:"connected,omitempty"`
}

// checkValues returns an error for values that Liqo could not use. CIDRs may overlap with those
// of other clusters, because Liqo maps them.
func (n *Network) checkValues() error {
	if err := errors.Join(checkCIDRs("pod", n.Pod), checkCIDRs("external", n.External)); err != nil {
		return err
	}
	if n.Endpoint != nil {
		if err := checkEndpoint(n.Endpoint); err != nil {
			return err
		}
	}
	if len(n.PublicKey) == 0 {
		return nil
	}
	if _, err := ecdh.X25519().NewPublicKey(n.PublicKey); err != nil {
		return fmt.Errorf("public key: %w", err)
	}
	return nil
}

func checkCIDRs(what string, cidrs []networkingv1beta1.CIDR) error {
	if len(cidrs) == 0 || len(cidrs) > mostCIDRs {
		return fmt.Errorf("%d %s CIDRs, want 1 to %d", len(cidrs), what, mostCIDRs)
	}
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(string(cidr))
		if err != nil || prefix != prefix.Masked() || prefix.Bits() == 0 {
			return fmt.Errorf("%s CIDR %q cannot be the network of a cluster", what, cidr)
		}
	}
	return nil
}

func checkEndpoint(e *networkingv1beta1.EndpointStatus) error {
	if len(e.Addresses) == 0 || len(e.Addresses) > mostAddresses {
		return fmt.Errorf("%d addresses of the gateway, want 1 to %d", len(e.Addresses), mostAddresses)
	}
	for _, address := range e.Addresses {
		ip, err := netip.ParseAddr(address)
		switch {
		case err != nil && len(validation.IsDNS1123Subdomain(address)) > 0,
			err == nil && (ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast()):
			return fmt.Errorf("address %q cannot be that of a gateway", address)
		}
	}
	if e.Port < 1 || e.Port > 65535 {
		return fmt.Errorf("port %d of the gateway is invalid", e.Port)
	}
	if e.Protocol == nil || *e.Protocol != corev1.ProtocolUDP && *e.Protocol != corev1.ProtocolTCP {
		return errors.New("the protocol of the gateway is neither UDP nor TCP")
	}
	return nil
}
