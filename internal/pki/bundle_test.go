package pki_test

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestParseBundle(t *testing.T) {
	a, b := newAuthority(t), newAuthority(t)
	pair, err := a.IssueClient("rome", "")
	runtest.Check(t, err)
	cases := map[string]struct {
		content []byte
		want    []*x509.Certificate
		refused string
	}{
		"one root":                       {content: a.CertPEM(), want: []*x509.Certificate{a.Certificate()}},
		"two roots":                      {content: slices.Concat(a.CertPEM(), b.CertPEM()), want: []*x509.Certificate{a.Certificate(), b.Certificate()}},
		"a duplicate root counts once":   {content: slices.Concat(a.CertPEM(), a.CertPEM()), want: []*x509.Certificate{a.Certificate()}},
		"text between blocks is ignored": {content: slices.Concat([]byte("# new\n"), a.CertPEM()), want: []*x509.Certificate{a.Certificate()}},
		"nothing":                        {refused: "no CA certificate"},
		"a private key":                  {content: slices.Concat(a.CertPEM(), pair.KeyPEM), refused: `"PRIVATE KEY"`},
		"a damaged root beside a good one": {
			content: slices.Concat(a.CertPEM(), []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")),
			refused: "certificate 2",
		},
		"a root that is cut off": {content: slices.Concat(a.CertPEM(), b.CertPEM()[:100]), refused: "1 of 2 PEM blocks are damaged: is the file complete?"},
		"a root whose base64 is broken": {
			content: slices.Concat([]byte("-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----\n"), a.CertPEM()),
			refused: "1 of 2 PEM blocks are damaged",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := pki.ParseBundle(tc.content)
			if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Fatalf("ParseBundle: %v; want an error that says %q", err, tc.refused)
			}
			if !slices.EqualFunc(got, tc.want, (*x509.Certificate).Equal) {
				t.Errorf("got %d certificates, want %d", len(got), len(tc.want))
			}
		})
	}
}

func TestParseKeyHash(t *testing.T) {
	good := pki.KeyHash(newAuthority(t).Certificate())
	for text, ok := range map[string]bool{
		good: true,
		"sha256:" + strings.ToUpper(good[len("sha256:"):]): true,
		"":                                  false,
		strings.TrimPrefix(good, "sha256:"): false,
		good + "00":                         false,
		good[:len(good)-1] + "g":            false,
		"sha1:" + good[len("sha256:"):]:     false,
	} {
		got, err := pki.ParseKeyHash(text)
		if (err == nil) != ok || ok && got != good {
			t.Errorf("ParseKeyHash(%q) = %q, %v; want it taken: %v", text, got, err, ok)
		}
	}
}
