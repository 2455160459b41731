package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Names of the files in a certificate directory. The first three match a kubernetes.io/tls
// Secret that cert-manager fills, so such a Secret can be mounted unchanged.
const (
	// CertFile contains the certificate of this broker or agent, followed by the intermediate
	// certificates.
	CertFile = "tls.crt"
	// KeyFile contains the private key of the certificate in CertFile.
	KeyFile = "tls.key"
	// CAFile contains the CA of the broker's server certificate.
	CAFile = "ca.crt"
	// AgentsCAFile contains the CA of the agents' certificates. The broker uses it to verify
	// agents, and agents use it to verify the messages of other agents. If it is absent, CAFile is
	// used instead.
	AgentsCAFile = "agents-ca.crt"
	// CAAdditionalFile contains CAs that are trusted in addition to those in CAFile, while a CA is
	// being replaced. AgentsCAAdditionalFile contains those in addition to AgentsCAFile. Both files
	// may be empty or absent.
	CAAdditionalFile       = "ca-additional.crt"
	AgentsCAAdditionalFile = "agents-ca-additional.crt"
)

var watched = [...]string{CertFile, KeyFile, CAFile, AgentsCAFile, CAAdditionalFile, AgentsCAAdditionalFile}

// clockSkew is by how much the clocks of two parties may differ.
const clockSkew = 5 * time.Minute

// pollInterval is the shortest time between two checks of the files for changes. A check at every
// request would take a third of the time of a short request, in the broker and in the agent.
const pollInterval = time.Second

// readTries is how many times the files are read at most, if they change while they are being read.
const readTries = 5

// Credentials is the content of a certificate directory at one time. It is never modified: a new
// pointer means new content.
type Credentials struct {
	// Certificate is the certificate of this broker or agent. Its field Leaf is set.
	Certificate tls.Certificate
	// ServerCA and ServerRoots are the CAs with which the broker's server certificate is verified.
	ServerCA    *x509.CertPool
	ServerRoots []*x509.Certificate
	// AgentsCA and AgentsRoots are the CAs with which the certificates and envelopes of agents are
	// verified.
	AgentsCA    *x509.CertPool
	AgentsRoots []*x509.Certificate
}

// TrustDigest returns the digest of all CAs in c.
func (c *Credentials) TrustDigest() string { return TrustDigest(c.ServerRoots, c.AgentsRoots) }

// Files reads a certificate directory and notices changes of its files. Current checks for changes
// at most once per pollInterval, and at every call while there is a problem.
type Files struct {
	dir string
	now func() time.Time

	// mu guards the fields below.
	mu      sync.Mutex
	looked  time.Time
	current *Credentials
	seen    [len(watched)]os.FileInfo
	problem error
}

// OpenFiles returns the Files of a directory, and reads them for the first time. The error names
// the file, the problem and the remedy.
func OpenFiles(dir string, now func() time.Time) (*Files, error) {
	f := &Files{dir: dir, now: now}
	if _, err := f.Current(); err != nil {
		return nil, err
	}
	return f, nil
}

// Current returns the newest valid content of the directory. While new files are invalid or only
// partly replaced, it returns the previous credentials as long as their certificate is valid.
// Problem then says what is wrong with the new files.
func (f *Files) Current() (*Credentials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reloadFiles()
	if f.current == nil {
		return nil, f.problem
	}
	if err := f.checkValidity(f.current.Certificate.Leaf); err != nil {
		return nil, errors.Join(err, f.problem)
	}
	return f.current, nil
}

// Expiry returns the end of the certificate that is in use as Unix time in seconds; 0 without a valid one.
func (f *Files) Expiry() float64 {
	credentials, err := f.Current()
	if err != nil {
		return 0
	}
	return float64(credentials.Certificate.Leaf.NotAfter.Unix())
}

// Problem returns why the present files are not in use; nil if they are in use.
func (f *Files) Problem() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reloadFiles()
	return f.problem
}

// ClusterID returns the ID of the cluster that the certificate in the directory identifies.
func (f *Files) ClusterID() (string, error) {
	c, err := f.Current()
	if err != nil {
		return "", err
	}
	id, err := ClusterID(c.Certificate.Leaf)
	if err != nil {
		return "", fmt.Errorf("certificate %q: %w", f.pathOf(CertFile), err)
	}
	return id, nil
}

// ClientTLS returns the TLS configuration of an agent's connections to the broker: TLS 1.3, the
// certificate in c, and c.ServerCA as the only CA.
func (f *Files) ClientTLS(c *Credentials) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{c.Certificate},
		RootCAs:      c.ServerCA,
		Time:         f.now,
	}
}

// ServerTLS returns the TLS configuration of the broker's listener: TLS 1.3 and a client
// certificate signed by AgentsCA are required. Session tickets are off, because the client
// certificate is not checked when a session is resumed. protocols are the offered ALPN protocols.
func (f *Files) ServerTLS(protocols ...string) *tls.Config {
	base := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
		NextProtos:             protocols,
		Time:                   f.now,
	}
	config := base.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := f.Current()
		if err != nil {
			return nil, err
		}
		fresh := base.Clone()
		fresh.Certificates = []tls.Certificate{c.Certificate}
		fresh.ClientCAs = c.AgentsCA
		return fresh, nil
	}
	return config
}

// EnrolmentTLS returns the TLS configuration of the listener for clusters that have no certificate
// yet: TLS 1.3, without a client certificate. The server appends its CA to the certificate chain,
// so that a client that knows only the KeyHash of the CA can verify the server.
func (f *Files) EnrolmentTLS(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		NextProtos:             protocols,
		Time:                   f.now,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c, err := f.Current()
			if err != nil {
				return nil, err
			}
			return c.chainWithRoots(), nil
		},
	}
}

func (c *Credentials) chainWithRoots() *tls.Certificate {
	whole := c.Certificate
	whole.Certificate = slices.Clone(c.Certificate.Certificate)
	for _, root := range c.ServerRoots {
		there := func(der []byte) bool { return bytes.Equal(der, root.Raw) }
		if !slices.ContainsFunc(whole.Certificate, there) {
			whole.Certificate = append(whole.Certificate, root.Raw)
		}
	}
	return &whole
}

func (f *Files) pathOf(name string) string { return filepath.Join(f.dir, name) }

// reloadFiles reads the files again if they have changed. It replaces current only if all files are
// valid and belong together. The caller must hold mu.
func (f *Files) reloadFiles() {
	now := f.now()
	if ago := now.Sub(f.looked); f.current != nil && f.problem == nil && 0 <= ago && ago < pollInterval {
		return
	}
	f.looked = now
	infos := f.statFiles()
	// A certificate that was not valid yet becomes valid without a change of the file.
	if (f.current != nil || f.problem != nil) && !errors.Is(f.problem, errNotYetValid) && slices.EqualFunc(infos[:], f.seen[:], sameFile) {
		return
	}
	for range readTries {
		c, err := f.readCredentials()
		f.seen, f.problem = infos, err
		if infos = f.statFiles(); !slices.EqualFunc(infos[:], f.seen[:], sameFile) {
			// The files may have been read partly before and partly after a change.
			f.problem = fmt.Errorf("certificate directory %q changes while being read: replace its files less often", f.dir)
			continue
		}
		if err == nil {
			f.current = c
		}
		return
	}
}

// statFiles is called before the files are read, so that the next check notices a later change.
func (f *Files) statFiles() (infos [len(watched)]os.FileInfo) {
	for i, name := range watched {
		// A file that cannot be inspected counts as absent here. Reading it returns the error.
		infos[i], _ = os.Stat(f.pathOf(name))
	}
	return infos
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (f *Files) readCredentials() (*Credentials, error) {
	certificate, err := f.readPair()
	if err != nil {
		return nil, err
	}
	if err := f.checkValidity(certificate.Leaf); err != nil {
		return nil, err
	}
	servers, err := f.readRoots(CAFile, CAAdditionalFile)
	if err != nil {
		return nil, err
	}
	agents, err := f.readRoots(AgentsCAFile, AgentsCAAdditionalFile)
	if errors.Is(err, os.ErrNotExist) {
		agents, err = servers, nil
	}
	if err != nil {
		return nil, err
	}
	return &Credentials{
		Certificate: certificate,
		ServerCA:    newCertPool(servers), ServerRoots: servers,
		AgentsCA: newCertPool(agents), AgentsRoots: agents,
	}, nil
}

func (f *Files) readPair() (tls.Certificate, error) {
	certPEM, err := f.readFile(CertFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := f.readFile(KeyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("%q and %q are not a certificate and its private key: %w: put both from the same issuance there",
			f.pathOf(CertFile), f.pathOf(KeyFile), err)
	}
	return pair, nil
}

// readRoots reads the CAs in the file name and those in the file additional, which may be absent.
func (f *Files) readRoots(name, additional string) ([]*x509.Certificate, error) {
	content, err := f.readFile(name)
	if err != nil {
		return nil, err
	}
	roots, err := ParseBundle(content)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", f.pathOf(name), err)
	}
	content, err = os.ReadFile(f.pathOf(additional))
	if errors.Is(err, os.ErrNotExist) || err == nil && len(bytes.TrimSpace(content)) == 0 {
		return roots, nil
	}
	if err != nil {
		return nil, fmt.Errorf("certificate directory: %w", err)
	}
	more, err := ParseBundle(content)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", f.pathOf(additional), err)
	}
	for _, root := range more {
		if !slices.ContainsFunc(roots, root.Equal) {
			roots = append(roots, root)
		}
	}
	return roots, nil
}

func (f *Files) readFile(name string) ([]byte, error) {
	content, err := os.ReadFile(f.pathOf(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("certificate directory %q lacks %s: it needs %s, %s and %s: %w",
			f.dir, name, CertFile, KeyFile, CAFile, os.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate directory: %w", err)
	}
	return content, nil
}

var errNotYetValid = errors.New("not valid")

// checkValidity returns an error if the certificate of this broker or agent has expired or is not
// valid yet. Whether it is valid yet depends on the other side's clock, so checkValidity accepts a
// local clock that is slow by up to clockSkew.
func (f *Files) checkValidity(leaf *x509.Certificate) error {
	now := f.now()
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("certificate %q expired on %s: renew it and replace the file; no restart is needed",
			f.pathOf(CertFile), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if now.Add(clockSkew).Before(leaf.NotBefore) {
		return fmt.Errorf("certificate %q is %w before %s, and the clock here shows %s: check the clock of this machine",
			f.pathOf(CertFile), errNotYetValid, leaf.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}
