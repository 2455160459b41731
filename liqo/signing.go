package liqo

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// RemoteTenantCSRLabel marks the CertificateSigningRequests that Liqo makes for other
// clusters and approves itself.
const RemoteTenantCSRLabel = "liqo.io/remote-tenant-csr"

// ResourceSlice and its spec are Liqo's own, for callers that handle one without knowing
// Liqo.
type (
	ResourceSlice     = authv1beta1.ResourceSlice
	ResourceSliceSpec = authv1beta1.ResourceSliceSpec
)

// maxSigningRequest bounds a certificate request before anything parses it or verifies its
// signature. One with an RSA key of 16384 bits is smaller.
const maxSigningRequest = 8 << 10

const signingRequestHeader = "-----BEGIN CERTIFICATE REQUEST-----"

// subject is what a certificate of Liqo's may name: one group and one user.
type subject struct{ organisation, commonName string }

func (s subject) name() pkix.Name {
	return pkix.Name{Organization: []string{s.organisation}, CommonName: s.commonName}
}

func (s subject) String() string { return s.name().String() }

// checkSigningRequest returns an error unless csr is one PEM block, with nothing around
// it, that holds a certificate request for exactly the subject want, without extensions
// or attributes, signed by its own key.
//
// Liqo compares the first organisation and the last common name only, and the cluster's
// signer makes a group of every organisation that is there.
func checkSigningRequest(csr []byte, want subject) error {
	request, err := parseSigningRequest(csr)
	if err != nil {
		return err
	}
	expected, err := asn1.Marshal(want.name().ToRDNSequence())
	if err != nil {
		return fmt.Errorf("subject %q: %w", want, err)
	}
	if !bytes.Equal(request.RawSubject, expected) {
		return fmt.Errorf("its subject is %q, want exactly %q", shorten(request.Subject.String()), want)
	}
	if len(request.Extensions) > 0 {
		return fmt.Errorf("it asks for extension %v, want none", request.Extensions[0].Id)
	}
	if err := checkNoAttributes(request.RawTBSCertificateRequest); err != nil {
		return err
	}
	if err := request.CheckSignature(); err != nil {
		return fmt.Errorf("it is not signed by its own key: %w", err)
	}
	return nil
}

func parseSigningRequest(csr []byte) (*x509.CertificateRequest, error) {
	if len(csr) > maxSigningRequest {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", len(csr), maxSigningRequest)
	}
	block, rest := pem.Decode(csr)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(block.Headers) > 0 {
		return nil, errors.New("it is no CERTIFICATE REQUEST in PEM")
	}
	if !bytes.HasPrefix(csr, []byte(signingRequestHeader)) || len(rest) > 0 {
		return nil, errors.New("there is more than one PEM block in it")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// checkNoAttributes refuses every attribute. Go shows only the kinds that it knows.
func checkNoAttributes(rawTBS []byte) error {
	var tbs struct {
		Version    int
		Subject    asn1.RawValue
		PublicKey  asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0,optional"`
	}
	rest, err := asn1.Unmarshal(rawTBS, &tbs)
	if err != nil {
		return fmt.Errorf("it cannot be parsed: %w", err)
	}
	if len(rest) > 0 || len(tbs.Attributes) > 0 {
		return errors.New("it carries attributes, want none")
	}
	return nil
}

// shorten keeps what a peer wrote from filling messages and logs.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// Refusal is why a peer does not get a certificate. Other errors mean that nothing could
// be decided.
type Refusal struct{ why string }

func (r *Refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return &Refusal{why: fmt.Sprintf(format, args...)} }

// CheckSliceSigning returns an error unless the certificate request in a ResourceSlice
// that consumer writes here is for the identity of that slice alone, by the key of the
// consumer's Tenant, and a reservation of the consumer stands behind it. A slice without a
// request asks for nothing yet.
func (p *Peering) CheckSliceSigning(ctx context.Context, consumer string, slice *authv1beta1.ResourceSlice) error {
	if len(slice.Spec.CSR) == 0 {
		return nil
	}
	want := subject{organisation: consumer, commonName: identityOf(slice.Name, consumer)}
	if err := checkSigningRequest(slice.Spec.CSR, want); err != nil {
		return refuse("spec.csr of ResourceSlice %q of cluster %q: %s", slice.Name, consumer, err)
	}
	if _, err := p.checkTenant(ctx, consumer, slice.Spec.CSR); err != nil {
		return err
	}
	return p.checkReserved(ctx, consumer, slice.Name)
}

// CheckSigning returns an error unless a certificate request that Liqo makes for another
// cluster is for exactly one identity that this cluster gives: the control plane of a
// consumer that has a Tenant here, or a slice of one. Where the agent guards the tenant
// namespace, a reservation must stand behind the slice.
func (p *Peering) CheckSigning(ctx context.Context, csr []byte) error {
	request, err := parseSigningRequest(csr)
	if err != nil {
		return refuse("certificate request for another cluster: %s", err)
	}
	if len(request.Subject.Organization) == 0 {
		return refuse("certificate request for another cluster: its subject %q has no organisation", shorten(request.Subject.String()))
	}
	want := subject{organisation: request.Subject.Organization[0], commonName: request.Subject.CommonName}
	if err := checkSigningRequest(csr, want); err != nil {
		return refuse("certificate request for another cluster: %s", err)
	}
	consumer, slice := want.commonName, ""
	if want.organisation != ControlPlaneGroup {
		consumer = want.organisation
		if slice = sliceOf(want.commonName, consumer); slice == "" {
			return refuse("certificate request for another cluster: user %q is no slice of cluster %q", want.commonName, consumer)
		}
	}
	guarded, err := p.checkTenant(ctx, consumer, csr)
	if err != nil || slice == "" || !guarded {
		return err
	}
	return p.checkReserved(ctx, consumer, slice)
}

// sliceOf returns the name of the consumer's slice that Liqo made the user of, "" if it
// is none.
func sliceOf(user, consumer string) string {
	suffix := identityOf("", consumer)
	name, ok := strings.CutSuffix(user, suffix)
	if !ok {
		return ""
	}
	return name
}

// checkTenant refuses a consumer that has no Tenant here, or whose Tenant holds another key
// than the request, and reports whether its tenant namespace is guarded. It reads the API
// server: Liqo asks for a certificate as soon as the Tenant is made.
func (p *Peering) checkTenant(ctx context.Context, consumer string, csr []byte) (guarded bool, err error) {
	ns, err := tenantNamespace(ctx, p.opts.Reader, consumer)
	if err != nil {
		return false, err
	}
	var tenants authv1beta1.TenantList
	if ns != nil {
		if err := p.opts.Reader.List(ctx, &tenants, client.InNamespace(ns.Name)); err != nil {
			return false, fmt.Errorf("Tenant of %q: %w", consumer, err)
		}
	}
	for i := range tenants.Items {
		tenant := &tenants.Items[i]
		if string(tenant.Spec.ClusterID) != consumer {
			continue
		}
		if !isByKeyOf(tenant, csr) {
			return false, refuse("certificate request for another cluster: it is not by the key of Tenant %q", consumer)
		}
		return Ours(ns) || p.opts.GuardElsewhere, nil
	}
	return false, refuse("certificate request for another cluster: no Tenant of cluster %q is here", shorten(consumer))
}

// isByKeyOf reports whether a checked request is by the Tenant's key. A Tenant that was made
// without a handshake may hold none.
func isByKeyOf(tenant *authv1beta1.Tenant, csr []byte) bool {
	if authv1beta1.GetAuthzPolicyValue(tenant.Spec.AuthzPolicy) == authv1beta1.TolerateNoHandshake {
		return true
	}
	request, err := parseSigningRequest(csr)
	if err != nil {
		return false
	}
	_, der, err := authentication.ParseTenantPublicKey(tenant.Spec.PublicKey)
	return err == nil && bytes.Equal(request.RawSubjectPublicKeyInfo, der)
}

// checkReserved refuses a slice without a live reservation. The cache answers for those
// that stand; before refusing, the API server is asked.
func (p *Peering) checkReserved(ctx context.Context, consumer, slice string) error {
	for _, reader := range []client.Reader{p.opts.Client, p.opts.Reader} {
		inst := &agentv1alpha1.ProviderInstruction{}
		found, err := get(ctx, reader, p.opts.InstructionNamespace, slice, inst)
		if err != nil {
			return fmt.Errorf("reservation behind slice %q: %w", slice, err)
		}
		if found && inst.Spec.RequesterClusterID == consumer && inst.Status.Enforced && !inst.Ended() {
			return nil
		}
	}
	return refuse("no live reservation of cluster %q stands behind slice %q", consumer, slice)
}
