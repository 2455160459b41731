package identity

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Entries of the Secret, besides those that are named after the files in package pki.
const (
	// pendingKeyEntry and pendingRequestEntry hold a private key and its certificate signing request
	// until the certificate arrives.
	pendingKeyEntry     = "pending.key"
	pendingRequestEntry = "pending.csr"
	// BrokerURLsFile holds the broker's addresses for agents, one per line.
	BrokerURLsFile = "broker-urls"
)

// entries lists all entries that this package writes. It does not touch other entries of the
// Secret.
var entries = []string{
	pki.CertFile, pki.KeyFile, pki.CAFile, pki.AgentsCAFile, BrokerURLsFile, pendingKeyEntry, pendingRequestEntry,
}

// State is the usable content of the Secret.
type State struct {
	// Certificate is the certificate in the Secret; nil if the Secret contains no usable one.
	Certificate *Certificate
	// Request is a request for which no certificate has arrived; nil if there is none.
	Request *Request
	// Problems describe unusable content of the Secret, which will be replaced.
	Problems []error
}

// Certificate is an issued certificate with its key. The certificate may have expired.
type Certificate struct {
	pki.KeyPair
	// CA and AgentsCA are the root certificates, in PEM, for the broker's servers and for the agents.
	CA, AgentsCA []byte
	// BrokerURLs are the broker's addresses for agents; empty if unknown.
	BrokerURLs []string

	Leaf        *x509.Certificate
	ClusterID   string
	trustDigest string
}

// ReadState reads the data of a Secret. Unusable content causes no error, but is described in
// Problems.
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
		BrokerURLs: strings.Fields(string(data[BrokerURLsFile])),
	}
	if err := c.parseFields(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Certificate) parseFields() error {
	pair, err := c.TLS()
	if err != nil {
		return fmt.Errorf("%s and %s do not match: %w", pki.CertFile, pki.KeyFile, err)
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

func (s State) secretData() map[string][]byte {
	data := map[string][]byte{}
	if c := s.Certificate; c != nil {
		maps.Copy(data, c.filesByName())
		if len(c.BrokerURLs) > 0 {
			data[BrokerURLsFile] = []byte(strings.Join(c.BrokerURLs, "\n"))
		}
	}
	if r := s.Request; r != nil {
		data[pendingKeyEntry], data[pendingRequestEntry] = r.KeyPEM, r.PEM
	}
	return data
}

func (c *Certificate) filesByName() map[string][]byte {
	return map[string][]byte{
		pki.CertFile: c.CertPEM, pki.KeyFile: c.KeyPEM, pki.CAFile: c.CA, pki.AgentsCAFile: c.AgentsCA,
	}
}

func (c *Certificate) sameAs(b *Certificate) bool {
	return b != nil && maps.EqualFunc(c.filesByName(), b.filesByName(), bytes.Equal)
}

func (c *Certificate) hasExpired(now time.Time) bool { return now.After(c.Leaf.NotAfter) }

func (c *Certificate) trustDomain() string {
	if len(c.Leaf.URIs) == 0 {
		return ""
	}
	return c.Leaf.URIs[0].Hostname()
}

// acceptAnswer returns the certificate in the broker's answer, with the request's key. It returns
// an error if the certificate does not match the request, has expired, or is not signed by one of
// the agents' CAs in the answer. The caller then keeps its current certificate.
func (r *Request) acceptAnswer(answer *v1.IssuedCertificate, now time.Time) (*Certificate, error) {
	c := &Certificate{
		KeyPair: pki.KeyPair{CertPEM: []byte(answer.Certificate), KeyPEM: r.KeyPEM},
		CA:      []byte(answer.Ca), AgentsCA: []byte(answer.AgentsCA), BrokerURLs: answer.BrokerURLs,
	}
	if err := c.parseFields(); err != nil {
		return nil, fmt.Errorf("the broker's answer is unusable: %w", err)
	}
	switch {
	case c.ClusterID != r.ClusterID:
		return nil, fmt.Errorf("the broker issued a certificate for cluster %q, requested was %q", c.ClusterID, r.ClusterID)
	case c.hasExpired(now):
		return nil, fmt.Errorf("the broker issued a certificate that expired on %s, and the clock here shows %s: check the clocks of both clusters",
			c.Leaf.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if err := c.verifyChain(); err != nil {
		return nil, fmt.Errorf("the broker issued a certificate that its own agents' CA did not sign: %w", err)
	}
	return c, nil
}

// verifyChain checks for the time at which the certificate becomes valid, because the local clock may be slow.
func (c *Certificate) verifyChain() error {
	chain, err := pki.ParseBundle(c.CertPEM)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.AgentsCA) // parseFields has parsed them
	_, err = pki.VerifyChain(chain, roots, c.Leaf.NotBefore, x509.ExtKeyUsageClientAuth)
	return err
}

// EnrolAgain is the remedy for a wrong cluster ID in a certificate that the agent manages itself.
const EnrolAgain = "with --identity-secret, delete that Secret to enrol again"

// CheckClusterID returns an error for a cluster ID that is invalid or differs from Liqo's. An empty ID
// means that the ID is not known yet, and causes no error.
func CheckClusterID(id, liqoID string) error {
	if id == "" {
		return nil
	}
	if !pki.ValidClusterID(id) {
		return fmt.Errorf("cluster ID %q is invalid: use a DNS label of at most %d lower-case characters", id, pki.MaxClusterIDLength)
	}
	if liqoID != "" && liqoID != id {
		return fmt.Errorf("this agent's cluster ID is %q but Liqo's is %q: use Liqo's ID here (%s), or reinstall Liqo with discovery.config.clusterID=%s", id, liqoID, EnrolAgain, id)
	}
	return nil
}
