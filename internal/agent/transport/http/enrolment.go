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
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// issueTimeout limits a call for which the broker must sign a certificate.
const issueTimeout = 45 * time.Second

// EnrollerOptions are the options of an Enroller. All except UserAgent are required.
type EnrollerOptions struct {
	// URL of the broker's enrolment listener, in the form https://host[:port].
	URL string
	// CAHashes are the hashes (pki.KeyHash) of the CAs, one of which must have signed the listener's certificate.
	CAHashes []string
	Now      func() time.Time
	// UserAgent identifies the agent and its version to the broker.
	UserAgent string
}

// Enroller requests the first certificate of a cluster. It sends no client certificate, and
// recognizes the broker by the hash of the key of its CA.
type Enroller struct{ api *v1.Client }

// Approval says that the enrolment of a cluster without a token awaits an administrator's approval.
type Approval struct {
	v1.EnrolmentPending
	// RetryAfter is how long to wait before asking again.
	RetryAfter time.Duration
}

// NewEnroller checks the options and returns an Enroller. It does not connect.
func NewEnroller(o EnrollerOptions) (*Enroller, error) {
	bases, err := parseURLs("--enrolment-url", []string{o.URL})
	if err != nil {
		return nil, err
	}
	if len(o.CAHashes) == 0 {
		return nil, errors.New("--enrolment-ca-hash is not set: set it to what `broker enrol` prints, so that no other server can impersonate the broker")
	}
	pins := make([]string, len(o.CAHashes))
	for i, text := range o.CAHashes {
		if pins[i], err = pki.ParseKeyHash(text); err != nil {
			return nil, fmt.Errorf("--enrolment-ca-hash: %w", err)
		}
	}
	anonymous := func() (*pki.Credentials, error) { return nil, nil }
	pinned := func(*pki.Credentials) *tls.Config { return pinnedTLS(pins, bases[0].Hostname(), o.Now) }
	t, err := Over(&connector{bases: bases, userAgent: o.UserAgent, current: anonymous, tlsFor: pinned}, o.URL)
	if err != nil {
		return nil, err
	}
	return &Enroller{t.api}, nil
}

// Rules returns what the broker requires of a certificate signing request.
func (e *Enroller) Rules(ctx context.Context) (*v1.EnrolmentRules, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	response, err := e.api.GetEnrolmentRules(ctx) //nolint:bodyclose // readAnswer closes it
	if err != nil {
		return nil, e.explainError(err)
	}
	return readAnswer[v1.EnrolmentRules](response)
}

// Enrol returns the certificate that the broker issued, or an Approval if an administrator must
// approve the enrolment first.
func (e *Enroller) Enrol(ctx context.Context, request *v1.EnrolmentRequest) (*v1.IssuedCertificate, *Approval, error) {
	ctx, cancel := context.WithTimeout(ctx, issueTimeout)
	defer cancel()
	response, err := e.api.Enrol(ctx, *request) //nolint:bodyclose // readAnswer closes it
	if err != nil {
		return nil, nil, e.explainError(err)
	}
	if response.StatusCode != nethttp.StatusAccepted {
		issued, err := readAnswer[v1.IssuedCertificate](response)
		return issued, nil, err
	}
	after := retryAfter(response)
	pending, err := readAnswer[v1.EnrolmentPending](response)
	if err != nil {
		return nil, nil, err
	}
	return nil, &Approval{EnrolmentPending: *pending, RetryAfter: after}, nil
}

func (e *Enroller) explainError(err error) error {
	if strings.Contains(err.Error(), "certificate required") {
		return fmt.Errorf("%w: %w: this is the broker's listener for agents; use the port of the enrolment listener, 8444 by default",
			transport.ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", transport.ErrUnreachable, err)
}

// pinnedTLS returns a TLS configuration that accepts only servers whose certificate chain contains
// a CA with one of the key hashes and leads to that CA. As with kubeadm join, the hash alone
// identifies the CA.
func pinnedTLS(hashes []string, host string, now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: host,
		Time:       now,
		// The default verification would require one of the system's CAs. VerifyConnection replaces it.
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
		return fmt.Errorf("none of the CAs in its chain (%s) has the key hash %s: it is not the broker that --enrolment-ca-hash identifies, or its CA was replaced; `broker enrol` prints the current hash",
			strings.Join(shown, ", "), strings.Join(hashes, " or "))
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, DNSName: host, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}
