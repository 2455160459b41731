package http

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	nethttp "net/http"
	"slices"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/transport"
)

// issueTimeout bounds a call that waits for an issuer to sign.
const issueTimeout = 45 * time.Second

// EnrollerOptions of an Enroller. All but UserAgent are required.
type EnrollerOptions struct {
	// URL of the broker's enrolment listener, https://host[:port].
	URL string
	// CAHashes are the pki.KeyHash of CAs, one of which must have signed the
	// listener's certificate.
	CAHashes []string
	// Now is the present, for the certificate's validity.
	Now func() time.Time
	// UserAgent names the agent and its version in the broker's sight.
	UserAgent string
}

// Enroller asks for a cluster's first certificate. It has none to show, and knows
// the broker by the hash of its CA's key alone.
type Enroller struct {
	api *v1.Client
	url string
}

// Approval is what a cluster without a token waits for.
type Approval struct {
	v1.EnrolmentPending
	// RetryAfter is when to ask again.
	RetryAfter time.Duration
}

// NewEnroller checks the options; it does not connect.
func NewEnroller(o EnrollerOptions) (*Enroller, error) {
	bases, err := parseURLs("--enrolment-url", []string{o.URL})
	if err != nil {
		return nil, err
	}
	if len(o.CAHashes) == 0 {
		return nil, errors.New("--enrolment-ca-hash is not set: give what `broker enrol` prints, so that nobody else can pose as the broker")
	}
	pins := make([]string, len(o.CAHashes))
	for i, text := range o.CAHashes {
		if pins[i], err = pki.ParseKeyHash(text); err != nil {
			return nil, fmt.Errorf("--enrolment-ca-hash: %w", err)
		}
	}
	to := &stranger{
		transport: newTransport(pinned(pins, bases[0].Hostname(), o.Now)), url: bases[0].String(), userAgent: o.UserAgent,
	}
	api, err := v1.NewClient(to.url, v1.WithHTTPClient(newRetrier(to)))
	if err != nil {
		return nil, fmt.Errorf("--enrolment-url: %w", err)
	}
	return &Enroller{api: api, url: to.url}, nil
}

// Terms says what a request has to hold.
func (e *Enroller) Terms(ctx context.Context) (*v1.EnrolmentTerms, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := e.api.GetEnrolmentTerms(ctx) //nolint:bodyclose // read closes it
	if err != nil {
		return nil, e.failure(err)
	}
	return read[v1.EnrolmentTerms](response)
}

// Enrol returns a certificate, or what the cluster waits for.
func (e *Enroller) Enrol(ctx context.Context, request *v1.EnrolmentRequest) (*v1.IssuedCertificate, *Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, issueTimeout)
	defer cancel()
	response, err := e.api.Enrol(ctx, *request) //nolint:bodyclose // read closes it
	if err != nil {
		return nil, nil, e.failure(err)
	}
	if response.StatusCode != nethttp.StatusAccepted {
		issued, err := read[v1.IssuedCertificate](response)
		return issued, nil, err
	}
	after := retryAfter(response)
	pending, err := read[v1.EnrolmentPending](response)
	if err != nil {
		return nil, nil, err
	}
	return nil, &Approval{EnrolmentPending: *pending, RetryAfter: after}, nil
}

func (e *Enroller) failure(err error) error {
	return fmt.Errorf("%w: %w", transport.ErrUnreachable, withoutURL(err))
}

// stranger sends requests without a client certificate.
type stranger struct {
	transport      *nethttp.Transport
	url, userAgent string
}

func (s *stranger) RoundTrip(request *nethttp.Request) (*nethttp.Response, error) {
	aimed := request.Clone(request.Context())
	if s.userAgent != "" {
		aimed.Header.Set("User-Agent", s.userAgent)
	}
	aimed.Header.Set(v1.MinorHeader, minor)
	response, err := s.transport.RoundTrip(aimed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.url, err)
	}
	return response, nil
}

// pinned takes a server whose chain leads to a CA with one of the key hashes. The
// CA is in the chain, as kubeadm finds it beside the cluster that it joins; that it
// is the right one is known by the hash alone.
func pinned(hashes []string, host string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		Time:       now,
		// The chain is checked below, against the pinned CA in place of the system's.
		InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := verifyPinned(state.PeerCertificates, hashes, host, now()); err != nil {
				return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
			}
			return nil
		},
	}
}

func verifyPinned(chain []*x509.Certificate, hashes []string, host string, now time.Time) error {
	roots, intermediates := x509.NewCertPool(), x509.NewCertPool()
	var shown []string
	found := false
	for _, cert := range chain[1:] {
		hash := pki.KeyHash(cert)
		if cert.IsCA && slices.Contains(hashes, hash) {
			roots.AddCert(cert)
			found = true
			continue
		}
		intermediates.AddCert(cert)
		shown = append(shown, hash)
	}
	if !found {
		return fmt.Errorf("none of the CAs it shows (%s) has the key hash %s: this is not the broker that --enrolment-ca-hash is for, or its CA was replaced; `broker enrol` prints the hash",
			strings.Join(shown, ", "), strings.Join(hashes, " or "))
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, DNSName: host, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}
