package enrolment

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// factsName is the name of the ConfigMap in which the broker publishes its Facts, so that
// `broker enrol` can read them from elsewhere. It contains nothing secret.
const factsName = "liqo-resource-broker-enrolment"

const (
	urlKey    = "url"
	caHashKey = "caHash"
)

// Facts are what a cluster must know to enrol, besides its token.
type Facts struct {
	// URL is the address at which clusters enrol; "" if the broker does not know it.
	URL string
	// CAHash is the pki.KeyHash of the CA that signed the broker's certificate.
	CAHash string
}

// publishFacts writes the Facts into their ConfigMap if they have changed. It does nothing if clusters
// cannot enrol at this broker.
func (e *Enroller) publishFacts(ctx context.Context) error {
	if !e.Listens {
		return nil
	}
	credentials, err := e.Files.Current()
	if err != nil {
		return err
	}
	signer, err := signerOf(credentials, e.Clock.Now())
	if err != nil {
		return err
	}
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: factsName}}
	_, err = controllerutil.CreateOrUpdate(ctx, e.Client, kept, func() error {
		metav1.SetMetaDataLabel(&kept.ObjectMeta, brokerv1alpha1.ManagedByLabel, brokerv1alpha1.ManagedByBroker)
		kept.Data = map[string]string{urlKey: e.EnrolmentURL, caHashKey: pki.KeyHash(signer)}
		return nil
	})
	if apierrors.IsAlreadyExists(err) {
		return nil // another replica has created it with the same Facts
	}
	return err
}

// signerOf returns the root certificate that clients need in order to verify the broker's
// present certificate.
func signerOf(c *pki.Credentials, now time.Time) (*x509.Certificate, error) {
	intermediates := x509.NewCertPool()
	for _, der := range c.Certificate.Certificate[1:] {
		if between, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(between)
		}
	}
	chains, err := c.Certificate.Leaf.Verify(x509.VerifyOptions{Roots: c.ServerCA, Intermediates: intermediates, CurrentTime: now})
	if err != nil {
		return nil, fmt.Errorf("the broker's certificate is not signed by a root in %s, so no cluster can enrol: %w", pki.CAFile, err)
	}
	return chains[0][len(chains[0])-1], nil
}

// ReadFacts returns the Facts that the broker in a namespace has published.
func ReadFacts(ctx context.Context, c client.Reader, namespace string) (Facts, error) {
	kept := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: factsName}, kept)
	if apierrors.IsNotFound(err) {
		return Facts{}, fmt.Errorf("namespace %q has no broker that enrols clusters: check --namespace, and that its --enrolment-bind-address is not 0", namespace)
	}
	if err != nil {
		return Facts{}, err
	}
	return Facts{URL: kept.Data[urlKey], CAHash: kept.Data[caHashKey]}, nil
}
