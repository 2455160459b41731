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

// MaxClusterIDLength is the maximum length of a cluster ID. It is limited by the names of
// namespaces that Liqo forms from the ID.
const MaxClusterIDLength = 40

var (
	clusterIDPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$`)
	// sliceUserPattern matches the user names that Liqo forms from the names of reservations'
	// slices. A cluster must not have such an ID, because Liqo also uses the cluster's ID as a user
	// name.
	sliceUserPattern = regexp.MustCompile(`^res-[a-z0-9]{10}-[1-9][0-9]*-[0-9a-f]{12}$`)
	oidCommonName    = asn1.ObjectIdentifier{2, 5, 4, 3}
)

// ClusterID returns the ID of the cluster that cert identifies. The ID is the certificate's only
// common name, and must be a lower-case DNS label of at most MaxClusterIDLength characters. If the
// certificate has a URI SAN, it must be spiffe://<trust domain>/cluster/<the same ID>. CA
// certificates and certificates without client auth are errors.
//
// ClusterID does not verify the certificate chain. Its errors may be shown to the caller.
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

// ValidClusterID reports whether id can be the ID of a cluster. An ID in the form of a slice's user
// name is not valid: at a provider, a cluster with that ID would have the rights of the slice.
func ValidClusterID(id string) bool {
	return clusterIDPattern.MatchString(id) && !sliceUserPattern.MatchString(id)
}

// commonName returns the only common name of a certificate. Several common names are an error,
// because cert.Subject.CommonName would silently be the last one.
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
	// The whole text must be equal, so that escapes, ports, users and queries are also errors.
	want := "spiffe://" + got.Hostname() + "/cluster/" + id
	if got.Hostname() == "" || got.String() != want {
		return fmt.Errorf("URI SAN %q does not match common name %q: want spiffe://<trust domain>/cluster/%s", got, id, id)
	}
	return nil
}
