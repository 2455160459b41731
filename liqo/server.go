package liqo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// CheckEndpoint resolves the name of an endpoint, which may take endpointTimeout at most. Its result
// is reused for endpointVerdict, so that a provider with slow DNS does not delay the placements at
// other providers.
const (
	endpointTimeout = 3 * time.Second
	endpointVerdict = 15 * time.Second
)

// serverVerdict is the result of CheckEndpoint for an endpoint, and until when it is used.
type serverVerdict struct {
	endpoint string
	err      error
	until    time.Time
}

func (p *Peering) checkProxy(proxy *string) error {
	if proxy == nil || *proxy == "" || slices.Contains(p.opts.Proxies, *proxy) {
		return nil
	}
	return fmt.Errorf("proxy %.200q is not among the allowed proxies: set --allowed-proxies (guard.allowedProxies in the chart) if the provider is to be reached through it", *proxy)
}

// checkEndpoint may be called by one goroutine at a time for the same provider.
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

// advertisedEndpoint returns the address of the API server that the provider advertises; "" if it
// advertises none. It takes the address from the newest instruction for the provider that has not
// ended or, if all have ended, from the present one.
func (s *consumerScene) advertisedEndpoint() string {
	if len(s.standing) == 0 {
		return s.inst.Spec.TargetClusterEndpoint
	}
	return s.standing[len(s.standing)-1].Spec.TargetClusterEndpoint
}

// observeServer compares the API server that the provider advertises with the address recorded in
// the tenant namespace. The admission policy for Identities allows only the recorded address.
// Without that policy, Liqo would connect to any address that the provider writes into the status
// of a Renew or of a ResourceSlice.
func (p consumerSide) observeServer(ctx context.Context, s *consumerScene) {
	s.Server.Recordable = s.namespace != nil && object.Ours(s.namespace) && s.identity != nil && object.Ours(s.identity)
	server := s.advertisedEndpoint()
	if s.Release || !s.Server.Recordable || server == "" {
		return
	}
	wanted := handshake.Spellings(server)
	if wanted == s.namespace.Annotations[object.ServerAnnotation] {
		s.Server.Recorded = true
		return
	}
	if err := p.checkEndpoint(ctx, s.Provider, server); err != nil {
		s.Handshake.Problem = fmt.Sprintf("advertised API server of %q: %v", s.Provider, err)
		return
	}
	s.server, s.Server.Wanted = wanted, true
}

// observeMisled sets s.Slice.Misled if the slice's status names an API server that is not recorded in
// the tenant namespace. The admission policy for Identities refuses such a server, and Liqo reports
// the refusal only in its log.
func (s *consumerScene) observeMisled() {
	if s.slice == nil || s.slice.Status.AuthParams == nil || s.namespace == nil {
		return
	}
	recorded := s.namespace.Annotations[object.ServerAnnotation]
	params := s.slice.Status.AuthParams
	if recorded == "" || slices.Contains(strings.Fields(recorded), strings.TrimRight(params.APIServer, "/")) {
		return
	}
	s.Slice.Misled = fmt.Sprintf("%q names API server %.200q for slice %q, but %q was agreed on: no identity is created for it",
		s.Provider, params.APIServer, s.Name, strings.Fields(recorded)[0])
}

// recordServer writes which addresses of the provider's API server this cluster's Liqo may use.
func (p *Peering) recordServer(ctx context.Context, ns *corev1.Namespace, servers string) error {
	if !object.Ours(ns) || ns.Annotations[object.ServerAnnotation] == servers {
		return nil
	}
	update := ns.DeepCopy()
	if update.Annotations == nil {
		update.Annotations = map[string]string{}
	}
	update.Annotations[object.ServerAnnotation] = servers
	return p.opts.Client.Patch(ctx, update, client.MergeFrom(ns))
}
