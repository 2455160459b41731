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

// Limits of what a provider sends as credentials: the length of the API server's address, the
// bytes of a certificate or CA bundle, and the number of certificates in a CA bundle. The
// certificate chain of an API server usually has a few KiB.
const (
	maxServerURL    = 2048
	maxCertificates = 64 << 10
	maxCAs          = 32
)

// canonicalServer returns the canonical form of an API server's address, so that two addresses
// can be compared. It returns an error for anything but a plain https address.
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

// CheckServer returns an error if the address is not the one that the provider advertises. If
// the provider advertises none, any https address passes; CheckEndpoint of the Peering must
// then restrict it.
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

// checkCertificates returns an error for a CA bundle that contains anything but certificates,
// or too many of them. An empty bundle is valid and means the system's CAs.
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

func checkNamespace(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("tenant namespace %.100q is not a namespace name", name)
	}
	return nil
}

// Spellings returns the spellings of an API server's address between which Liqo may choose: with
// and without the default port 443, separated by a space. An address with another port has only one
// spelling. The admission policy compares the address that Liqo uses with each of them.
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
