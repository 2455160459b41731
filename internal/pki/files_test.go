package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestOpenFilesErrorNamesFileAndRemedy(t *testing.T) {
	a := newAuthority(t)
	cases := map[string]struct {
		edit func(t *testing.T, dir string)
		now  time.Time
		want []string
	}{
		"good":                       {},
		"agents' CA of their own":    {edit: write(pki.AgentsCAFile, a.CertPEM())},
		"certificate is missing":     {edit: remove(pki.CertFile), want: []string{"lacks tls.crt"}},
		"key is missing":             {edit: remove(pki.KeyFile), want: []string{"lacks tls.key"}},
		"CA is missing":              {edit: remove(pki.CAFile), want: []string{"lacks ca.crt"}},
		"CA is no PEM":               {edit: write(pki.CAFile, []byte("x")), want: []string{pki.CAFile, "no CA certificate"}},
		"agents' CA is no PEM":       {edit: write(pki.AgentsCAFile, []byte("x")), want: []string{pki.AgentsCAFile, "no CA certificate"}},
		"a second root":              {edit: write(pki.CAAdditionalFile, newAuthority(t).CertPEM())},
		"no second root":             {edit: write(pki.AgentsCAAdditionalFile, []byte("\n"))},
		"second root is no PEM":      {edit: write(pki.CAAdditionalFile, []byte("x")), want: []string{pki.CAAdditionalFile, "no CA certificate"}},
		"key of another certificate": {edit: write(pki.KeyFile, otherKey(t, a)), want: []string{pki.CertFile, pki.KeyFile, "same issuance"}},
		"expired":                    {now: testTime.Add(pkitest.LeafLifetime + time.Second), want: []string{pki.CertFile, "expired on 2027-03-01T12:00:00Z", "renew"}},
		"a clock a little late":      {now: testTime.Add(-9 * time.Minute)},
		"not valid yet":              {now: testTime.Add(-time.Hour), want: []string{pki.CertFile, "2026-03-01T11:55:00Z", "clock"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := certDir(t, a, "rome")
			if tc.edit != nil {
				tc.edit(t, dir)
			}
			now := testTime
			if !tc.now.IsZero() {
				now = tc.now
			}
			_, err := pki.OpenFiles(dir, func() time.Time { return now })
			if (err != nil) != (tc.want != nil) {
				t.Fatalf("OpenFiles: %v; want an error: %v", err, tc.want != nil)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestFilesFollowChanges(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	dir := certDir(t, a, "rome")
	now := testTime
	files, err := pki.OpenFiles(dir, func() time.Time { return now })
	runtest.Check(t, err)
	first := current(t, files)
	if again := current(t, files); again != first {
		t.Error("unchanged files were read again")
	}

	write(pki.KeyFile, otherKey(t, a))(t, dir)
	if files.Problem() != nil {
		t.Error("files were looked at twice within a second")
	}
	now = now.Add(pki.PollInterval)
	if got := current(t, files); got != first {
		t.Error("a half replaced pair was used")
	}
	if files.Problem() == nil {
		t.Error("Problem is nil while the pair is half replaced")
	}

	save(t, b, "rome", dir)
	second := current(t, files)
	if second == first || files.Problem() != nil {
		t.Errorf("new files are not in use: %v", files.Problem())
	}
	if !second.AgentsCA.Equal(b.Pool()) {
		t.Error("without agents-ca.crt the agents' CA is not ca.crt")
	}
	if id, err := files.ClusterID(); id != "rome" || err != nil {
		t.Errorf("ClusterID = %q, %v; want rome", id, err)
	}
	if got, want := files.Expiry(), float64(second.Certificate.Leaf.NotAfter.Unix()); got != want {
		t.Errorf("Expiry = %f, want %f", got, want)
	}

	remove(pki.CertFile)(t, dir)
	now = now.Add(pki.PollInterval)
	if got := current(t, files); got != second {
		t.Error("a removed file took what was read away")
	}
	now = testTime.Add(pkitest.LeafLifetime + time.Hour)
	if _, err := files.Current(); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Current of an expired certificate = %v; want it to say so, and that the file is missing", err)
	}
	if got := files.Expiry(); got != 0 {
		t.Errorf("Expiry of an expired certificate = %f, want 0", got)
	}
}

// TestFilesFollowMountedSecret replaces a mounted Secret as the kubelet does, by switching a
// symbolic link.
func TestFilesFollowMountedSecret(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	for name, cluster := range map[string]string{"v1": "rome", "v2": "paris"} {
		save(t, a, cluster, filepath.Join(dir, name))
	}
	turn := func(to string) {
		t.Helper()
		next := filepath.Join(dir, "next")
		runtest.Check(t, errors.Join(os.Symlink(to, next), os.Rename(next, filepath.Join(dir, "data"))))
	}
	turn("v1")
	now := testTime
	files, err := pki.OpenFiles(filepath.Join(dir, "data"), func() time.Time { return now })
	runtest.Check(t, err)
	turn("v2")
	now = now.Add(pki.PollInterval)
	if id, err := files.ClusterID(); id != "paris" || err != nil {
		t.Errorf("ClusterID after the turn = %q, %v; want paris", id, err)
	}
}

func TestFilesUseCertificateOnceItIsValid(t *testing.T) {
	a := newAuthority(t)
	dir := certDir(t, a, "rome")
	now := testTime
	files, err := pki.OpenFiles(dir, func() time.Time { return now })
	runtest.Check(t, err)
	first := current(t, files)
	late, err := a.Issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "rome"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, NotBefore: now.Add(time.Hour),
	})
	runtest.Check(t, errors.Join(err, pkitest.Save(dir, late, a.CertPEM(), nil)))
	now = now.Add(pki.PollInterval)
	if got := current(t, files); got != first || files.Problem() == nil {
		t.Errorf("a certificate of the next hour is in use: %v", files.Problem())
	}
	now = now.Add(time.Hour)
	if got := current(t, files); got == first || files.Problem() != nil {
		t.Errorf("the certificate is not in use in its hour: %v", files.Problem())
	}
}

func TestFilesTrustAdditionalRoots(t *testing.T) {
	a, b, c := newAuthority(t), newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	pair, err := a.IssueClient("rome", "")
	runtest.Check(t, errors.Join(err, pkitest.Save(dir, pair, a.CertPEM(), b.CertPEM())))
	now := testTime
	files, err := pki.OpenFiles(dir, func() time.Time { return now })
	runtest.Check(t, err)
	before := current(t, files)
	write(pki.CAAdditionalFile, c.CertPEM())(t, dir)
	write(pki.AgentsCAAdditionalFile, slices.Concat(c.CertPEM(), b.CertPEM()))(t, dir)
	now = now.Add(pki.PollInterval)
	after := current(t, files)
	if before.TrustDigest() == after.TrustDigest() {
		t.Error("another root left the digest as it was")
	}
	if diff := cmp.Diff([]*x509.Certificate{a.Certificate(), c.Certificate()}, after.ServerRoots); diff != "" {
		t.Errorf("roots of servers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]*x509.Certificate{b.Certificate(), c.Certificate()}, after.AgentsRoots); diff != "" {
		t.Errorf("roots of agents (-want +got):\n%s", diff)
	}
	if got, want := pki.TrustDigest([]*x509.Certificate{c.Certificate(), a.Certificate()}, after.AgentsRoots), after.TrustDigest(); got != want {
		t.Errorf("digest in another order: %s, want %s", got, want)
	}
	remove(pki.CAAdditionalFile)(t, dir)
	remove(pki.AgentsCAAdditionalFile)(t, dir)
	now = now.Add(pki.PollInterval)
	if got, want := current(t, files).TrustDigest(), before.TrustDigest(); got != want {
		t.Errorf("digest without additional roots: %s, want %s", got, want)
	}
}

func TestFilesOfServerHaveNoClusterID(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	pair, err := a.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "broker"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	runtest.Check(t, errors.Join(err, pkitest.Save(dir, pair, a.CertPEM(), nil)))
	files, err := pki.OpenFiles(dir, func() time.Time { return testTime })
	runtest.Check(t, err)
	if id, err := files.ClusterID(); err == nil || !strings.Contains(err.Error(), pki.CertFile) {
		t.Errorf("ClusterID = %q, %v; want an error that names the file", id, err)
	}
}

func certDir(t *testing.T, a *pkitest.Authority, cluster string) string {
	t.Helper()
	dir := t.TempDir()
	save(t, a, cluster, dir)
	return dir
}

func save(t *testing.T, a *pkitest.Authority, cluster, dir string) {
	t.Helper()
	pair, err := a.IssueClient(cluster, "")
	runtest.Check(t, errors.Join(err, pkitest.Save(dir, pair, a.CertPEM(), nil)))
}

func current(t *testing.T, f *pki.Files) *pki.Credentials {
	t.Helper()
	c, err := f.Current()
	runtest.Check(t, err)
	return c
}

func otherKey(t *testing.T, a *pkitest.Authority) []byte {
	t.Helper()
	pair, err := a.IssueClient("rome", "")
	runtest.Check(t, err)
	return pair.KeyPEM
}

func write(name string, content []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		next := filepath.Join(dir, "next")
		runtest.Check(t, errors.Join(os.WriteFile(next, content, 0o600), os.Rename(next, filepath.Join(dir, name))))
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		runtest.Check(t, os.Remove(filepath.Join(dir, name)))
	}
}
