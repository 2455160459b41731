package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Rules decide whether this cluster may connect to an address that another cluster has advertised.
type Rules struct {
	// loopback is true if this cluster advertises a loopback address: all clusters are then on one machine.
	loopback bool
	lookup   func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// RulesFor returns the rules for the cluster whose own API server has the given advertised
// endpoint.
func RulesFor(own string) Rules {
	return Rules{loopback: isLoopback(own), lookup: net.DefaultResolver.LookupNetIP}
}

// isLoopback resolves no names except localhost.
func isLoopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.Unmap().IsLoopback() || err != nil && strings.EqualFold(u.Hostname(), "localhost")
}

// metadata holds addresses of cloud metadata services that are not link-local: those of Alibaba,
// Azure, Oracle and AWS.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("fd00:ec2::254"),
}

// nat64 and sixToFour are prefixes of IPv6 addresses that contain an IPv4 address, to which a
// gateway may forward the connection. A NAT64 address contains the IPv4 address in bytes 12 to 15,
// a 6to4 address in bytes 2 to 5.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// CheckAddr returns an error if an address cannot belong to another cluster's API server.
func (r Rules) CheckAddr(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		bytes := ip.As16()
		switch {
		case nat64.Contains(ip):
			return r.CheckAddr(netip.AddrFrom4([4]byte(bytes[12:])))
		case sixToFour.Contains(ip):
			return r.CheckAddr(netip.AddrFrom4([4]byte(bytes[2:6])))
		}
	}
	switch {
	case ip.IsLoopback() && !r.loopback:
		return fmt.Errorf("%s is a loopback address: no other cluster can reach it", ip)
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip.IsUnspecified(), ip == broadcast, slices.Contains(metadata, ip):
		return fmt.Errorf("%s cannot be the address of an API server", ip)
	}
	return nil
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// CheckHost returns an error if a host has an address that CheckAddr rejects. The host is an IP
// address or a DNS name. A name may resolve to other addresses later, so CheckAddr must be called
// again for each connection.
func (r Rules) CheckHost(ctx context.Context, host string) error {
	if ip, err := netip.ParseAddr(host); err == nil {
		return r.CheckAddr(ip)
	}
	ips, err := r.lookup(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("resolving %q: %w", host, err)
	}
	if len(ips) == 0 {
		return fmt.Errorf("%q resolves to no address", host)
	}
	for _, ip := range ips {
		if err := r.CheckAddr(ip); err != nil {
			return fmt.Errorf("%q: %w", host, err)
		}
	}
	return nil
}

// CheckEndpoint returns an error if an endpoint is not an https URL, or if CheckHost rejects its
// host.
func (r Rules) CheckEndpoint(ctx context.Context, endpoint string) error {
	_, host, err := addressOf(endpoint)
	if err != nil {
		return errors.New("not an https address")
	}
	return r.CheckHost(ctx, host)
}
