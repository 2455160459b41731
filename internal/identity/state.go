package identity

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Entries of the Secret beside those named like the files of package pki.
const (
	// pendingKeyEntry and pendingRequestEntry are a private key and its certificate
	// signing request, sent or about to be.
	pendingKeyEntry     = "pending.key"
	pendingRequestEntry = "pending.csr"
	// brokerURLsEntry is where the broker says it serves agents, one address a line.
	brokerURLsEntry = "broker-urls"
)

// entries are all that this package writes; others are left as they are.
var entries = []string{
	pki.CertFile, pki.KeyFile, pki.CAFile, pki.AgentsCAFile, brokerURLsEntry, pendingKeyEntry, pendingRequestEntry,
}

// State is what the Secret holds, as far as it can be used.
type State struct {
	// Certificate is nil where there is none that can be used.
	Certificate *Certificate
	// Request waits for its answer; nil if none does.
	Request *Request
	// Problems say what in the Secret cannot be used, and is replaced in time.
	Problems []error
}

// Certificate is what the broker issued, and the key that belongs to it. It may have
// expired.
type Certificate struct {
	pki.KeyPair
	// CA and AgentsCA are the bundles of roots that came with it, PEM.
	CA, AgentsCA []byte
	// BrokerURLs is where the broker serves agents; empty if it did not say.
	BrokerURLs []string

	Leaf        *x509.Certificate
	ClusterID   string
	trustDigest string
}

// ReadState takes the data of a Secret. Whatever somebody did to it, the result is
// something to go on with.
func ReadState(data map[string][]byte) State {
	var state State
	var err error
	if state.Certificate, err = readCertificate(data); err != nil {
		state.Problems = append(state.Problems, err)
	}
	if state.Request, err = readRequest(data); err != nil {
		state.Problems = append(state.Problems, err)
	}
	return state
}

func readCertificate(data map[string][]byte) (*Certificate, error) {
	names := []string{pki.CertFile, pki.KeyFile, pki.CAFile, pki.AgentsCAFile}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return len(data[name]) > 0 })
	switch len(missing) {
	case 0:
	case len(names):
		return nil, nil
	default:
		return nil, fmt.Errorf("certificate without %s", strings.Join(missing, ", "))
	}
	c := &Certificate{
		KeyPair: pki.KeyPair{CertPEM: data[pki.CertFile], KeyPEM: data[pki.KeyFile]},
		CA:      data[pki.CAFile], AgentsCA: data[pki.AgentsCAFile],
		BrokerURLs: strings.Fields(string(data[brokerURLsEntry])),
	}
	if err := c.parse(); err != nil {
		return nil, err
	}
	return c, nil
}

// parse fills in what follows from the rest.
func (c *Certificate) parse() error {
	pair, err := c.TLS()
	if err != nil {
		return fmt.Errorf("%s and %s are no pair: %w", pki.CertFile, pki.KeyFile, err)
	}
	c.Leaf = pair.Leaf
	if c.ClusterID, err = pki.ClusterID(c.Leaf); err != nil {
		return fmt.Errorf("%s: %w", pki.CertFile, err)
	}
	servers, err := pki.ParseBundle(c.CA)
	if err != nil {
		return fmt.Errorf("%s: %w", pki.CAFile, err)
	}
	agents, err := pki.ParseBundle(c.AgentsCA)
	if err != nil {
		return fmt.Errorf("%s: %w", pki.AgentsCAFile, err)
	}
	c.trustDigest = pki.TrustDigest(servers, agents)
	return nil
}

// data is the state as a Secret holds it.
func (s State) data() map[string][]byte {
	data := map[string][]byte{}
	if c := s.Certificate; c != nil {
		maps.Copy(data, c.files())
		if len(c.BrokerURLs) > 0 {
			data[brokerURLsEntry] = []byte(strings.Join(c.BrokerURLs, "\n"))
		}
	}
	if r := s.Request; r != nil {
		data[pendingKeyEntry], data[pendingRequestEntry] = r.KeyPEM, r.PEM
	}
	return data
}

// files are what the agent reads, by name.
func (c *Certificate) files() map[string][]byte {
	return map[string][]byte{
		pki.CertFile: c.CertPEM, pki.KeyFile: c.KeyPEM, pki.CAFile: c.CA, pki.AgentsCAFile: c.AgentsCA,
	}
}

// same says that b is c, with the same roots.
func (c *Certificate) same(b *Certificate) bool {
	return b != nil && maps.EqualFunc(c.files(), b.files(), bytes.Equal)
}

func (c *Certificate) expired(now time.Time) bool { return now.After(c.Leaf.NotAfter) }

// trustDomain of the certificate's URI, empty if it has none.
func (c *Certificate) trustDomain() string {
	if len(c.Leaf.URIs) == 0 {
		return ""
	}
	return c.Leaf.URIs[0].Hostname()
}

// accept joins a request's key with the broker's answer to it. What does not fit is
// an error, and leaves what is in use in use.
func (r *Request) accept(answer *v1.IssuedCertificate, now time.Time) (*Certificate, error) {
	c := &Certificate{
		KeyPair: pki.KeyPair{CertPEM: []byte(answer.Certificate), KeyPEM: r.KeyPEM},
		CA:      []byte(answer.Ca), AgentsCA: []byte(answer.AgentsCA), BrokerURLs: answer.BrokerURLs,
	}
	if err := c.parse(); err != nil {
		return nil, fmt.Errorf("the broker's answer is of no use: %w", err)
	}
	switch {
	case c.ClusterID != r.ClusterID:
		return nil, fmt.Errorf("the broker issued a certificate of cluster %q, asked for was %q", c.ClusterID, r.ClusterID)
	case c.expired(now):
		return nil, fmt.Errorf("the broker issued a certificate that expired on %s, and it is %s here: check the clocks of both clusters",
			c.Leaf.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if err := c.verify(); err != nil {
		return nil, fmt.Errorf("the broker issued a certificate that its own agents' CA did not sign: %w", err)
	}
	return c, nil
}

// verify looks at the chain alone: at its own beginning, since the clock here may be
// late.
func (c *Certificate) verify() error {
	pair, err := c.TLS()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(c.AgentsCA) {
		return errors.New("no root")
	}
	intermediates := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		intermediates.AddCert(cert)
	}
	_, err = c.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, CurrentTime: c.Leaf.NotBefore,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}
