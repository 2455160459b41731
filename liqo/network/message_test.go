package network

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
)

func TestPeerNetworkIsChecked(t *testing.T) {
	endpoint := func(change func(*networkingv1beta1.EndpointStatus)) func(*Network) {
		return func(n *Network) { change(n.Endpoint) }
	}
	tests := map[string]struct {
		change func(*Network)
		want   string
	}{
		"what Liqo says":               {change: func(*Network) {}},
		"before there is a gateway":    {change: func(n *Network) { n.Endpoint, n.PublicKey = nil, nil }},
		"a gateway with a name":        {change: endpoint(func(e *networkingv1beta1.EndpointStatus) { e.Addresses = []string{"gw.example.com"} })},
		"no pod CIDR":                  {change: func(n *Network) { n.Pod = nil }, want: "0 pod CIDRs"},
		"no external CIDR":             {change: func(n *Network) { n.External = nil }, want: "0 external CIDRs"},
		"more CIDRs than anybody has":  {change: func(n *Network) { n.Pod = make([]networkingv1beta1.CIDR, 17) }, want: "17 pod CIDRs"},
		"a CIDR that is none":          {change: func(n *Network) { n.Pod[0] = "10.0.0.0" }, want: `"10.0.0.0"`},
		"an address inside a network":  {change: func(n *Network) { n.Pod[0] = "10.0.0.1/16" }, want: `"10.0.0.1/16"`},
		"the whole world":              {change: func(n *Network) { n.Pod[0] = "0.0.0.0/0" }, want: `"0.0.0.0/0"`},
		"a key that is none":           {change: func(n *Network) { n.PublicKey = []byte("short") }, want: "public key"},
		"no address":                   {change: endpoint(func(e *networkingv1beta1.EndpointStatus) { e.Addresses = nil }), want: "0 addresses"},
		"the receiver's own machine":   {change: endpoint(func(e *networkingv1beta1.EndpointStatus) { e.Addresses[0] = "127.0.0.1" }), want: `"127.0.0.1"`},
		"a cloud's metadata":           {change: endpoint(func(e *networkingv1beta1.EndpointStatus) { e.Addresses[0] = "169.254.169.254" }), want: `"169.254.169.254"`},
		"an address that is none":      {change: endpoint(func(e *networkingv1beta1.EndpointStatus) { e.Addresses[0] = "a b" }), want: `"a b"`},
		"an empty one, of no node yet": {change: endpoint(func(e *networkingv1beta1.EndpointStatus) { e.Addresses[0] = "" }), want: `""`},
		"a port that is none":          {change: endpoint(func(e *networkingv1beta1.EndpointStatus) { e.Port = 65536 }), want: "port 65536"},
		"a protocol that is none":      {change: endpoint(func(e *networkingv1beta1.EndpointStatus) { e.Protocol = new(corev1.ProtocolSCTP) }), want: "protocol"},
		"an endpoint without protocol": {change: endpoint(func(e *networkingv1beta1.EndpointStatus) { e.Protocol = nil }), want: "protocol"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := Network{
				Pod: []networkingv1beta1.CIDR{"10.20.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}, PublicKey: make([]byte, 32),
				Endpoint: &networkingv1beta1.EndpointStatus{Addresses: []string{"192.0.2.7"}, Port: 51840, Protocol: new(corev1.ProtocolUDP)},
			}
			test.change(&n)
			if err := n.checkValues(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
