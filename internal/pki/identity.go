package pki

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
)

// MaxClusterIDLength is how much room Liqo leaves for a cluster ID in the namespace names that
// it builds.
const MaxClusterIDLength = 40

var (
	clusterIDPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)
	// sliceUserPattern matches the users that Liqo makes of slices with a reservation. Liqo makes
	// the ID of a cluster the user of its control plane.
	sliceUserPattern = regexp.MustCompile(`^res-[a-z0-9]{10}-[1-9][0-9]*-[0-9a-f]{12}$`)
	oidCommonName    = asn1.ObjectIdentifier{2, 5, 4, 3}
)

// ClusterID returns the cluster that cert identifies: its only common name, which must be a
// lower-case DNS label of at most MaxClusterIDLength characters. A URI SAN, if there is one,
// must be spiffe://<trust domain>/cluster/<the same ID>. CA certificates and certificates
// without client auth are rejected.
//
// ClusterID does not verify the chain. Its errors may be shown to the caller.
func ClusterID(cert *x509.Certificate) (string, error) {
	if cert == nil {
		return "", errors.New("no certificate")
	}
	if cert.IsCA || cert.KeyUsage&x509.KeyUsageCertSign != 0 {
		return "", errors.New("a CA certificate identifies no cluster: use a client certificate that it signed")
	}
	if !slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return "", errors.New("certificate lacks the extended key usage client auth: issue it with that usage")
	}
	id, err := commonName(cert)
	if err != nil {
		return "", err
	}
	if !ValidClusterID(id) {
		return "", fmt.Errorf("common name %q is not a cluster ID: want a lower-case DNS label of at most %d characters", id, MaxClusterIDLength)
	}
	if err := checkURIs(cert.URIs, id); err != nil {
		return "", err
	}
	return id, nil
}

// ValidClusterID reports whether id has the form of a cluster ID. The user name of a slice is
// none: at a provider, a cluster of that name would have the rights of the slice.
func ValidClusterID(id string) bool {
	return clusterIDPattern.MatchString(id) && !sliceUserPattern.MatchString(id)
}

// commonName rejects several common names. cert.Subject.CommonName would silently use the last.
func commonName(cert *x509.Certificate) (string, error) {
	var names []string
	for _, attr := range cert.Subject.Names {
		if !attr.Type.Equal(oidCommonName) {
			continue
		}
		name, ok := attr.Value.(string)
		if !ok {
			return "", errors.New("common name is not text")
		}
		names = append(names, name)
	}
	if len(names) != 1 {
		return "", fmt.Errorf("certificate has %d common names: want one, the cluster ID", len(names))
	}
	return names[0], nil
}

func checkURIs(uris []*url.URL, id string) error {
	switch len(uris) {
	case 0:
		return nil
	case 1:
	default:
		return fmt.Errorf("certificate has %d URI SANs: want at most one", len(uris))
	}
	got := uris[0]
	// Comparing the whole text also rejects escapes, ports, users and queries.
	want := "spiffe://" + got.Hostname() + "/cluster/" + id
	if got.Hostname() == "" || got.String() != want {
		return fmt.Errorf("URI SAN %q does not match common name %q: want spiffe://<trust domain>/cluster/%s", got, id, id)
	}
	return nil
}
