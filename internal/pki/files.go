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

// Names of the files in a certificate directory. The first three are those of a
// kubernetes.io/tls Secret that cert-manager fills, so it can be mounted as it is.
const (
	// CertFile is this side's certificate, followed by its intermediates.
	CertFile = "tls.crt"
	// KeyFile is the private key of CertFile.
	KeyFile = "tls.key"
	// CAFile is the CA that the broker's server certificate is checked against.
	CAFile = "ca.crt"
	// AgentsCAFile is the CA that agents' certificates are checked against, by the
	// broker and by other agents. Without the file it is CAFile.
	AgentsCAFile = "agents-ca.crt"
	// CAAdditionalFile and AgentsCAAdditionalFile hold further roots that are trusted
	// beside those of CAFile and AgentsCAFile while a CA is rotated. They may be
	// empty or absent.
	CAAdditionalFile       = "ca-additional.crt"
	AgentsCAAdditionalFile = "agents-ca-additional.crt"

	caKeyFile = "ca.key"
)

var watched = [...]string{CertFile, KeyFile, CAFile, AgentsCAFile, CAAdditionalFile, AgentsCAAdditionalFile}

// lookEvery is how often files that are in use are looked at. At every request it would be
// a third of what a short one costs on both sides.
const lookEvery = time.Second

// readTries bounds how often files are read that are replaced meanwhile.
const readTries = 5

// Credentials are the content of a certificate directory at one time. They do not
// change: whoever holds a pointer can tell newer ones by comparing it.
type Credentials struct {
	// Certificate is this side's own, with Leaf set.
	Certificate tls.Certificate
	// ServerCA is what the broker's certificate is checked against, and ServerRoots
	// the certificates in it.
	ServerCA    *x509.CertPool
	ServerRoots []*x509.Certificate
	// AgentsCA is what agents' certificates and envelopes are checked against, and
	// AgentsRoots the certificates in it.
	AgentsCA    *x509.CertPool
	AgentsRoots []*x509.Certificate
}

// TrustDigest names the roots in c.
func (c *Credentials) TrustDigest() string { return TrustDigest(c.ServerRoots, c.AgentsRoots) }

// Files reads a certificate directory and follows its changes: a call of Current looks at
// the files, once a second at most while all is well, and reads them if one was replaced.
type Files struct {
	dir string
	now func() time.Time

	// mu guards the following.
	mu      sync.Mutex
	looked  time.Time
	current *Credentials
	seen    [len(watched)]os.FileInfo
	problem error
}

// OpenFiles reads dir. The error names the file, what is wrong with it and what to
// do.
func OpenFiles(dir string, now func() time.Time) (*Files, error) {
	f := &Files{dir: dir, now: now}
	if _, err := f.Current(); err != nil {
		return nil, err
	}
	return f, nil
}

// Current returns what the directory holds. While new files are broken or only
// half replaced, the credentials read before them stay in use, as long as their
// certificate is valid; Problem tells.
func (f *Files) Current() (*Credentials, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reload()
	if f.current == nil {
		return nil, f.problem
	}
	if err := f.checkValidity(f.current.Certificate.Leaf); err != nil {
		return nil, errors.Join(err, f.problem)
	}
	return f.current, nil
}

// Problem says why the files as they are now are not in use; nil if they are.
func (f *Files) Problem() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reload()
	return f.problem
}

// ClusterID is the cluster that the directory's certificate speaks for.
func (f *Files) ClusterID() (string, error) {
	c, err := f.Current()
	if err != nil {
		return "", err
	}
	id, err := ClusterID(c.Certificate.Leaf)
	if err != nil {
		return "", fmt.Errorf("certificate %q: %w", f.path(CertFile), err)
	}
	return id, nil
}

// ClientTLS is the configuration of connections to the broker made with c: TLS 1.3,
// this side's certificate, no CA but c.ServerCA.
func (f *Files) ClientTLS(c *Credentials) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{c.Certificate},
		RootCAs:      c.ServerCA,
		Time:         f.now,
	}
}

// ServerTLS is the configuration of the broker's listener: TLS 1.3, a client
// certificate signed by AgentsCA, no session tickets because a resumed session
// skips the check of certificates. protocols are those of ALPN.
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

// EnrolmentTLS is the configuration of the listener for clusters without a
// certificate: TLS 1.3, no client certificate. The server's chain ends with its CA,
// so that a client which knows no more than the KeyHash of the CA can check it.
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
			return c.withRoots(), nil
		},
	}
}

func (c *Credentials) withRoots() *tls.Certificate {
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

func (f *Files) path(name string) string { return filepath.Join(f.dir, name) }

// reload needs mu. It leaves current alone unless all files are good, and of one
// moment.
func (f *Files) reload() {
	now := f.now()
	if ago := now.Sub(f.looked); f.current != nil && f.problem == nil && 0 <= ago && ago < lookEvery {
		return
	}
	f.looked = now
	infos := f.stat()
	// What is not valid yet becomes so without any change.
	if (f.current != nil || f.problem != nil) && !errors.Is(f.problem, errEarly) && slices.EqualFunc(infos[:], f.seen[:], sameFile) {
		return
	}
	for range readTries {
		c, err := f.read()
		f.seen, f.problem = infos, err
		if infos = f.stat(); !slices.EqualFunc(infos[:], f.seen[:], sameFile) {
			// What was read may be some old and some new files.
			f.problem = fmt.Errorf("certificate directory %q changes while it is read: replace its files less often", f.dir)
			continue
		}
		if err == nil {
			f.current = c
		}
		return
	}
}

// stat comes before read: a file that is replaced in between is read again.
func (f *Files) stat() (infos [len(watched)]os.FileInfo) {
	for i, name := range watched {
		// A file that cannot be looked at counts as absent; read explains.
		infos[i], _ = os.Stat(f.path(name))
	}
	return infos
}

func sameFile(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (f *Files) read() (*Credentials, error) {
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
		ServerCA:    pool(servers), ServerRoots: servers,
		AgentsCA: pool(agents), AgentsRoots: agents,
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
		return tls.Certificate{}, fmt.Errorf("%q and %q are no certificate and its private key: %w: put both from the same issue there",
			f.path(CertFile), f.path(KeyFile), err)
	}
	return pair, nil
}

// readRoots reads a bundle and what stands beside it.
func (f *Files) readRoots(name, additional string) ([]*x509.Certificate, error) {
	content, err := f.readFile(name)
	if err != nil {
		return nil, err
	}
	roots, err := ParseBundle(content)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", f.path(name), err)
	}
	content, err = os.ReadFile(f.path(additional))
	if errors.Is(err, os.ErrNotExist) || err == nil && len(bytes.TrimSpace(content)) == 0 {
		return roots, nil
	}
	if err != nil {
		return nil, fmt.Errorf("certificate directory: %w", err)
	}
	more, err := ParseBundle(content)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", f.path(additional), err)
	}
	for _, root := range more {
		if !slices.ContainsFunc(roots, root.Equal) {
			roots = append(roots, root)
		}
	}
	return roots, nil
}

func (f *Files) readFile(name string) ([]byte, error) {
	content, err := os.ReadFile(f.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("certificate directory %q lacks %s: it needs %s, %s and %s: %w",
			f.dir, name, CertFile, KeyFile, CAFile, os.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate directory: %w", err)
	}
	return content, nil
}

var errEarly = errors.New("not valid")

// checkValidity is about what this side shows. Whether the certificate is valid yet
// is for the other side's clock to say, so a clock here that is a little late is no
// reason to do without it.
func (f *Files) checkValidity(leaf *x509.Certificate) error {
	now := f.now()
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("certificate %q expired on %s: renew it and replace the file; no restart is needed",
			f.path(CertFile), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if now.Add(clockSkew).Before(leaf.NotBefore) {
		return fmt.Errorf("certificate %q is %w before %s, and it is %s here: check the clock of this machine",
			f.path(CertFile), errEarly, leaf.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}
