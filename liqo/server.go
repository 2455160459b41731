package liqo

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// Bounds of credentials. A chain of certificates of an API server has a few KiB.
const (
	maxServerURL    = 2048
	maxCertificates = 64 << 10
	maxCAs          = 32
)

// A check of an endpoint resolves names. Its verdict holds for endpointVerdict, so that a
// provider with slow DNS does not delay the placements at others.
const (
	endpointTimeout = 3 * time.Second
	endpointVerdict = 15 * time.Second
)

// serverVerdict is the outcome of a check of an endpoint.
type serverVerdict struct {
	endpoint string
	err      error
	until    time.Time
}

// canonicalServer returns one spelling of an API server's address, so that two can be
// compared.
func canonicalServer(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || len(address) > maxServerURL || u.Scheme != "https" || u.Hostname() == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("API server %.200q is no https address", address)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return "https://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port) + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// checkServer refuses an API server other than the one that the provider advertises. A
// provider that advertises none can name any that the dialling rules allow.
func checkServer(address, advertised string) error {
	got, err := canonicalServer(address)
	if err != nil || advertised == "" {
		return err
	}
	want, err := canonicalServer(advertised)
	if err != nil {
		return fmt.Errorf("advertised %w", err)
	}
	if got != want {
		return fmt.Errorf("API server %q is not %q, which the provider advertises: apiServer.address of its Liqo and --endpoint-url of its agent must agree",
			got, want)
	}
	return nil
}

// checkProxy refuses a proxy that this cluster's operator did not allow.
func (p *Peering) checkProxy(proxy *string) error {
	if proxy == nil || *proxy == "" || slices.Contains(p.opts.Proxies, *proxy) {
		return nil
	}
	return fmt.Errorf("proxy %.200q is not among the allowed proxies: set --allowed-proxies (guard.allowedProxies in the chart) if the provider is to be reached through it", *proxy)
}

// checkCertificates refuses a CA bundle that holds anything but certificates, or too many.
// An empty one means the CAs of the system.
func checkCertificates(bundle []byte) error {
	if len(bundle) > maxCertificates {
		return fmt.Errorf("CA of %d bytes, at most %d are used", len(bundle), maxCertificates)
	}
	for count := 1; len(strings.TrimSpace(string(bundle))) > 0; count++ {
		block, rest := pem.Decode(bundle)
		if block == nil || block.Type != "CERTIFICATE" {
			return errors.New("CA is not a list of certificates in PEM")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("CA: %w", err)
		}
		if count > maxCAs {
			return fmt.Errorf("CA of more than %d certificates", maxCAs)
		}
		bundle = rest
	}
	return nil
}

// checkNamespace refuses the name of a tenant namespace that no namespace can have.
func checkNamespace(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("tenant namespace %.100q is no name of a namespace", name)
	}
	return nil
}

// checkEndpoint refuses an endpoint that this cluster must not connect to. It must be
// called by one goroutine at a time for each provider.
func (p *Peering) checkEndpoint(ctx context.Context, provider, endpoint string) error {
	if p.opts.CheckEndpoint == nil {
		return nil
	}
	now := p.opts.Clock.Now()
	p.mu.Lock()
	known, ok := p.verdicts[provider]
	p.mu.Unlock()
	if ok && known.endpoint == endpoint && now.Before(known.until) {
		return known.err
	}
	ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	err := p.opts.CheckEndpoint(ctx, endpoint)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verdicts[provider] = serverVerdict{endpoint: endpoint, err: err, until: now.Add(endpointVerdict)}
	return err
}

// advertised returns the endpoint in the newest standing instruction of the provider, ""
// if it advertises none.
func (s *consumerScene) advertised() string {
	standing := slices.DeleteFunc(oldestFirst(s.all), func(i *agentv1alpha1.ReservationInstruction) bool {
		return i.Spec.TargetClusterID != s.Provider || i.Ended()
	})
	if len(standing) == 0 {
		return s.inst.Spec.TargetClusterEndpoint
	}
	return standing[len(standing)-1].Spec.TargetClusterEndpoint
}

// observeServer compares the API server that the provider advertises with the one that is
// recorded. The admission policy for Identities reads the record: Liqo itself takes any
// address that the provider writes into the status of a Renew or of a ResourceSlice.
func (p *Peering) observeServer(ctx context.Context, s *consumerScene) {
	s.Server.Recordable = s.namespace != nil && Ours(s.namespace) && s.identity != nil && Ours(s.identity)
	server := s.advertised()
	if s.Release || !s.Server.Recordable || server == "" {
		return
	}
	wanted := spellings(server)
	if wanted == s.namespace.Annotations[serverAnnotation] {
		s.Server.Recorded = true
		return
	}
	if err := p.checkEndpoint(ctx, s.Provider, server); err != nil {
		s.Handshake.Problem = fmt.Sprintf("advertised API server of %q: %v", s.Provider, err)
		return
	}
	s.server, s.Server.Wanted = wanted, true
}

// observeMisled looks for an API server or a proxy in the slice's status that the policy
// for Identities refuses: Liqo writes that into its log alone.
func (s *consumerScene) observeMisled() {
	if s.slice == nil || s.slice.Status.AuthParams == nil || s.namespace == nil {
		return
	}
	recorded := s.namespace.Annotations[serverAnnotation]
	params := s.slice.Status.AuthParams
	if recorded == "" || slices.Contains(strings.Fields(recorded), strings.TrimRight(params.APIServer, "/")) {
		return
	}
	s.Slice.Misled = fmt.Sprintf("%q names API server %.200q for slice %q, and %q was agreed on: no identity is made for it",
		s.Provider, params.APIServer, s.Name, strings.Fields(recorded)[0])
}

// recordServer writes down which API server this cluster's Liqo may use for the provider.
func (p *Peering) recordServer(ctx context.Context, ns *corev1.Namespace, servers string) error {
	if !Ours(ns) || ns.Annotations[serverAnnotation] == servers {
		return nil
	}
	update := ns.DeepCopy()
	if update.Annotations == nil {
		update.Annotations = map[string]string{}
	}
	update.Annotations[serverAnnotation] = servers
	return p.opts.Client.Patch(ctx, update, client.MergeFrom(ns))
}

// spellings lists the ways to write an API server's address that mean the same, separated
// by spaces. The policy compares texts.
func spellings(address string) string {
	address = strings.TrimRight(address, "/")
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	host := u.Host
	switch u.Port() {
	case "":
		u.Host = host + ":443"
	case "443":
		u.Host = strings.TrimSuffix(host, ":443")
	default:
		return address
	}
	return address + " " + u.String()
}
