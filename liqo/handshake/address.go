package handshake

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of credentials. The certificate chain of an API server has a few KiB.
const (
	maxServerURL    = 2048
	maxCertificates = 64 << 10
	maxCAs          = 32
)

// canonicalServer returns the canonical form of an API server's address, for comparisons.
func canonicalServer(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || len(address) > maxServerURL || u.Scheme != "https" || u.Hostname() == "" ||
		u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("API server %.200q is not an https address", address)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return "https://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port) + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// CheckServer refuses an API server other than the advertised one. A provider that advertises
// none may name any server that the dialling rules allow.
func CheckServer(address, advertised string) error {
	got, err := canonicalServer(address)
	if err != nil || advertised == "" {
		return err
	}
	want, err := canonicalServer(advertised)
	if err != nil {
		return fmt.Errorf("advertised %w", err)
	}
	if got != want {
		return fmt.Errorf("API server %q is not %q, which the provider advertises: apiServer.address of its Liqo and --endpoint-url of its agent must agree",
			got, want)
	}
	return nil
}

// checkCertificates refuses a CA bundle with other content than certificates, or with too many.
// An empty bundle means the system's CAs.
func checkCertificates(bundle []byte) error {
	if len(bundle) > maxCertificates {
		return fmt.Errorf("CA of %d bytes, at most %d are accepted", len(bundle), maxCertificates)
	}
	for count := 1; len(strings.TrimSpace(string(bundle))) > 0; count++ {
		block, rest := pem.Decode(bundle)
		if block == nil || block.Type != "CERTIFICATE" {
			return errors.New("CA is not a list of certificates in PEM")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("CA: %w", err)
		}
		if count > maxCAs {
			return fmt.Errorf("CA of more than %d certificates", maxCAs)
		}
		bundle = rest
	}
	return nil
}

// checkNamespace refuses a tenant namespace with an invalid name.
func checkNamespace(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("tenant namespace %.100q is not a namespace name", name)
	}
	return nil
}

// Spellings lists the equivalent spellings of an API server's address, separated by spaces. The
// admission policy compares them as text.
func Spellings(address string) string {
	address = strings.TrimRight(address, "/")
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	host := u.Host
	switch u.Port() {
	case "":
		u.Host = host + ":443"
	case "443":
		u.Host = strings.TrimSuffix(host, ":443")
	default:
		return address
	}
	return address + " " + u.String()
}
