package handshake

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/handshake/handshaketest"
)

func TestCredentialsLeadToTheAdvertisedServer(t *testing.T) {
	for name, tt := range map[string]struct {
		server, advertised string
		ok                 bool
	}{
		"the advertised one":              {server: "https://paris.example:6443", advertised: "https://paris.example:6443", ok: true},
		"with a slash at its end":         {server: "https://paris.example:6443/", advertised: "https://paris.example:6443", ok: true},
		"the port that https has":         {server: "https://paris.example", advertised: "https://paris.example:443/", ok: true},
		"in other letters":                {server: "https://PARIS.example", advertised: "https://paris.example", ok: true},
		"an IPv6 address":                 {server: "https://[2001:db8::1]:443", advertised: "https://[2001:db8::1]", ok: true},
		"with a path":                     {server: "https://rancher.example/k8s/c-1/", advertised: "https://rancher.example/k8s/c-1", ok: true},
		"none is advertised":              {server: "https://paris.example", ok: true},
		"another host":                    {server: "https://169.254.169.254:443", advertised: "https://paris.example:443"},
		"another port":                    {server: "https://paris.example:10250", advertised: "https://paris.example:6443"},
		"another path":                    {server: "https://rancher.example/k8s/c-2", advertised: "https://rancher.example/k8s/c-1"},
		"a host that begins the same":     {server: "https://paris.example.evil.example", advertised: "https://paris.example"},
		"with a user":                     {server: "https://paris.example@169.254.169.254"},
		"with a query":                    {server: "https://paris.example?a=b"},
		"with a fragment":                 {server: "https://paris.example#a"},
		"without TLS":                     {server: "http://paris.example"},
		"another scheme":                  {server: "unix:///run/docker.sock"},
		"nothing":                         {},
		"longer than any address":         {server: "https://" + strings.Repeat("a", 5000)},
		"an advertised one that is none":  {server: "https://paris.example", advertised: "paris"},
		"a line break":                    {server: "https://paris.example\n- name: b"},
		"a port that is a word":           {server: "https://paris.example:https"},
		"advertised in capitals is equal": {server: "https://paris.example", advertised: "https://Paris.Example", ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckServer(tt.server, tt.advertised); (err == nil) != tt.ok {
				t.Errorf("got %v, want ok %v", err, tt.ok)
			}
		})
	}
}

func TestCABundlesAreBounded(t *testing.T) {
	crt := handshaketest.NewKeyPair(t).Certificate(t, "ca")
	key := handshaketest.NewKeyPair(t).PrivatePEM(t)
	for name, tt := range map[string]struct {
		bundle []byte
		ok     bool
	}{
		"none, for the CAs of the system": {ok: true},
		"one":                             {bundle: crt, ok: true},
		"two and white space":             {bundle: slices.Concat(crt, []byte("\n"), crt, []byte("\n\n")), ok: true},
		"as many as are taken":            {bundle: bytes.Repeat(crt, 32), ok: true},
		"one more":                        {bundle: bytes.Repeat(crt, 33)},
		"too many bytes":                  {bundle: append(bytes.Clone(crt), bytes.Repeat([]byte("\n"), 64<<10)...)},
		"a word":                          {bundle: []byte("ca")},
		"a certificate and a word":        {bundle: append(bytes.Clone(crt), "ca"...)},
		"a key":                           {bundle: key},
		"a certificate that is none":      {bundle: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")},
	} {
		t.Run(name, func(t *testing.T) {
			if err := checkCertificates(tt.bundle); (err == nil) != tt.ok {
				t.Errorf("got %v, want ok %v", err, tt.ok)
			}
		})
	}
}

// The policy for Identities compares text, so the record holds every equivalent spelling.
func TestSpellingsOfAServer(t *testing.T) {
	for server, want := range map[string]string{
		"https://paris.example:6443":       "https://paris.example:6443",
		"https://paris.example:6443/":      "https://paris.example:6443",
		"https://paris.example":            "https://paris.example https://paris.example:443",
		"https://paris.example:443":        "https://paris.example:443 https://paris.example",
		"https://[2001:db8::1]":            "https://[2001:db8::1] https://[2001:db8::1]:443",
		"https://rancher.example/k8s/c-1/": "https://rancher.example/k8s/c-1 https://rancher.example:443/k8s/c-1",
	} {
		if got := Spellings(server); got != want {
			t.Errorf("%s: got %q, want %q", server, got, want)
		}
	}
}
