package attacks

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/keyutil"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/authority"
)

// backdating is how far before the current time kube-controller-manager starts a certificate's
// validity.
const backdating = 5 * time.Minute

// holder is an identity of a peer, with the object at the provider whose status contains its
// certificate.
type holder struct {
	name   string
	object *unstructured.Unstructured
	read   func(ctx context.Context) (*e2e.Cluster, error)
}

// TestCertificatesOfPeersAreShortLivedAndRenewed checks that kube-controller-manager signs
// certificates of peers for guard.certificateLifetime. Liqo must renew them under a running
// reservation, with the same subject and lifetime.
func TestCertificatesOfPeersAreShortLivedAndRenewed(t *testing.T) {
	s := open(t)
	// A change of the Tenant makes Liqo check the slice's certificate again, so the Tenant comes
	// last.
	holders := []holder{
		{"the slice", s.attacker.ownSlice(t), func(ctx context.Context) (*e2e.Cluster, error) {
			return s.env.SliceIdentity(ctx, s.attacker.id, provider, s.attacker.slice)
		}},
		{"the control plane", e2e.Object(e2e.TenantKind, s.attacker.office, s.attacker.id), func(ctx context.Context) (*e2e.Cluster, error) {
			return s.env.Identity(ctx, s.attacker.id, provider)
		}},
	}
	withValues(t, s.env, provider, map[string]any{"guard": map[string]any{"certificateLifetime": "1h"}})
	issued := map[string]*x509.Certificate{}
	for _, h := range holders {
		cert := certificateOf(t, h.read)
		if life := cert.NotAfter.Sub(cert.NotBefore); life > 8*time.Hour+backdating {
			t.Errorf("the certificate of %s lives for %s, want the default of 8h", h.name, life)
		}
		aged := base64.StdEncoding.EncodeToString(s.age(t, cert))
		check(t, s.provider.Status().Patch(t.Context(), h.object, merge(`{"status":{"authParams":{"signedCRT":"`+aged+`"}}}`)))
		issued[h.name] = cert
	}
	for _, h := range holders {
		t.Run(h.name, func(t *testing.T) {
			var renewed *x509.Certificate
			check(t, e2e.Await(t.Context(), patience, func(context.Context) (string, error) {
				renewed = certificateOf(t, h.read)
				if left := time.Until(renewed.NotAfter); left > 30*time.Minute && left <= time.Hour {
					return "", nil
				}
				return fmt.Sprintf("a renewed certificate of an hour, it ends %s", renewed.NotAfter), nil
			}))
			if life := renewed.NotAfter.Sub(renewed.NotBefore); life > time.Hour+backdating {
				t.Errorf("the renewed certificate of %s lives for %s, want 1h", h.name, life)
			}
			if before := issued[h.name]; renewed.Subject.String() != before.Subject.String() {
				t.Errorf("the certificate of %s was renewed for %s, it was issued for %s", h.name, renewed.Subject, before.Subject)
			}
		})
	}
	s.onlyExpectedSubjects(t)
	for _, c := range []*tenant{s.attacker, s.neighbour} {
		s.awaitIdentities(t, c)
	}
}

// certificateOf reads the certificate that a consumer's Liqo uses.
func certificateOf(t *testing.T, read func(ctx context.Context) (*e2e.Cluster, error)) *x509.Certificate {
	t.Helper()
	cluster, err := read(t.Context())
	check(t, err)
	block, _ := pem.Decode(cluster.Config.CertData)
	if block == nil {
		t.Fatalf("no certificate in the credentials of %s", cluster.Name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	return cert
}

// age signs a certificate with the subject and key of another one. Most of its lifetime is over, so
// Liqo renews it. Liqo renews a certificate after two thirds of its lifetime, and Kubernetes signs
// none for less than ten minutes.
func (s *scene) age(t *testing.T, like *x509.Certificate) []byte {
	t.Helper()
	ca, err := authority.Open(filepath.Join(s.env.Playground.Clusters[provider].Dir(), "pki"), provider, time.Now)
	check(t, err)
	key, err := keyutil.PrivateKeyFromFile(ca.KeyFile())
	check(t, err)
	block, _ := pem.Decode(ca.PEM())
	issuer, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: like.Subject,
		NotBefore: time.Now().Add(-10 * time.Hour), NotAfter: time.Now().Add(20 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, issuer, like.PublicKey, key.(crypto.Signer))
	check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
