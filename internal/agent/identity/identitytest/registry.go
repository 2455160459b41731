// Package identitytest provides a broker that issues certificates to agents in tests.
package identitytest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
)

// TrustDomain and Token are the initial settings of a Registry.
const (
	TrustDomain = "fluidos.eu"
	Token       = "token.of.rome"
)

// Registry issues certificates by the rules of a broker: a token is valid only for the first key
// that uses it. Change its fields with Edit.
type Registry struct {
	// Now returns the time at which a new certificate begins to be valid.
	Now func() time.Time
	// Agents signs the agents' certificates. ServersCA and BrokerURLs are returned with each
	// certificate.
	Agents     *pkitest.Authority
	ServersCA  []byte
	BrokerURLs []string
	// Life is the lifetime of a certificate, initially one hour.
	Life time.Duration
	// Domain is the trust domain that requests must name.
	Domain string
	// Tokens maps each valid token to the fingerprint of the key that has used it, or to "" if none
	// has.
	Tokens map[string]string
	// Approved is true if clusters without a token are approved.
	Approved bool
	// Failure is returned as the error of every call unless it is nil.
	Failure error

	// mu protects all fields, including those above.
	mu                sync.Mutex
	enrolled, renewed []string
	issued            int
}

var _ server.Certificates = (*Registry)(nil)

// NewRegistry returns a Registry with a CA and a Token.
func NewRegistry(t *testing.T, c clock.PassiveClock) *Registry {
	t.Helper()
	agents := NewAuthority(t, c)
	return &Registry{
		Now: c.Now, Agents: agents, ServersCA: agents.CertPEM(),
		Life: time.Hour, Domain: TrustDomain, Tokens: map[string]string{Token: ""},
	}
}

// Edit calls change while no request is being handled.
func (r *Registry) Edit(change func(*Registry)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

// Enrolled returns the fingerprints of the keys of all enrolment requests, in order and with
// repetitions.
func (r *Registry) Enrolled() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.enrolled)
}

// Renewed returns the fingerprints of the keys of all renewal requests, in order and with
// repetitions.
func (r *Registry) Renewed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.renewed)
}

// Issued returns the number of issued certificates.
func (r *Registry) Issued() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.issued
}

// Rules implements server.Certificates.
func (r *Registry) Rules(context.Context) (*v1.EnrolmentRules, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Failure != nil {
		return nil, r.Failure
	}
	return &v1.EnrolmentRules{TrustDomain: r.Domain}, nil
}

// Enrol implements server.Certificates.
func (r *Registry) Enrol(_ context.Context, q *v1.EnrolmentRequest) (*v1.IssuedCertificate, *v1.EnrolmentPending, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request, key, err := r.read(q.Csr)
	if err != nil {
		return nil, nil, err
	}
	r.enrolled = append(r.enrolled, key)
	if q.Token == "" && !r.Approved {
		return nil, &v1.EnrolmentPending{ClusterID: q.ClusterID, KeyFingerprint: key, Message: "approve " + q.ClusterID}, nil
	}
	if q.Token != "" {
		bound, known := r.Tokens[q.Token]
		if !known {
			return nil, nil, fault.New(fault.TokenExpired, "the token expired")
		}
		if bound != "" && bound != key {
			return nil, nil, fault.New(fault.TokenUsed, "the token was used with another key")
		}
		r.Tokens[q.Token] = key
	}
	issued, err := r.issue(request)
	return issued, nil, err
}

// Renew implements server.Certificates.
func (r *Registry) Renew(_ context.Context, _ string, q *v1.RenewalRequest) (*v1.IssuedCertificate, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	request, key, err := r.read(q.Csr)
	if err != nil {
		return nil, err
	}
	r.renewed = append(r.renewed, key)
	return r.issue(request)
}

// read parses a request and returns it with the fingerprint of its key. The caller must hold mu.
func (r *Registry) read(text string) (*x509.CertificateRequest, string, error) {
	if r.Failure != nil {
		return nil, "", r.Failure
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, "", fault.New(fault.InvalidCSR, "no PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, "", fault.New(fault.InvalidCSR, "%v", err)
	}
	if want := "spiffe://" + r.Domain + "/cluster/" + request.Subject.CommonName; len(request.URIs) != 1 || request.URIs[0].String() != want {
		return nil, "", fault.New(fault.InvalidCSR, "URIs %v, want %s", request.URIs, want)
	}
	return request, pki.KeyHash(&x509.Certificate{RawSubjectPublicKeyInfo: request.RawSubjectPublicKeyInfo}), nil
}

// issue signs a certificate for a request. The caller must hold mu.
func (r *Registry) issue(request *x509.CertificateRequest) (*v1.IssuedCertificate, error) {
	now := r.Now()
	certificate, err := r.Agents.Certify(request.PublicKey, &x509.Certificate{
		Subject: request.Subject, URIs: request.URIs, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: now, NotAfter: now.Add(r.Life),
	})
	if err != nil {
		return nil, err
	}
	r.issued++
	return &v1.IssuedCertificate{
		Certificate: string(certificate), Ca: string(r.ServersCA), AgentsCA: string(r.Agents.CertPEM()), BrokerURLs: r.BrokerURLs,
	}, nil
}
