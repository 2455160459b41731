package product

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// issueTimeout is how long cert-manager may take to issue a certificate on a busy machine.
const issueTimeout = 60 * time.Second

// Carry gives a cluster that does not enrol its certificate: it copies the certificate from the broker's cluster
// into that cluster, as the cluster's administrator would.
func (p *Product) Carry(ctx context.Context, clusterID string) error {
	m, err := p.memberOf(clusterID)
	if err != nil {
		return err
	}
	issued, err := p.awaitSecret(ctx, brokerName+"-agent-"+clusterID)
	if err != nil {
		return err
	}
	servers, err := p.awaitSecret(ctx, brokerName+"-tls")
	if err != nil {
		return err
	}
	there, err := client.New(m.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := client.IgnoreAlreadyExists(there.Create(ctx, namespace)); err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Carried}}
	data := map[string][]byte{
		corev1.TLSCertKey: issued.Data[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: issued.Data[corev1.TLSPrivateKeyKey],
		"ca.crt": servers.Data["ca.crt"], "agents-ca.crt": issued.Data["ca.crt"],
	}
	err = there.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err != nil:
		secret.Data = data
		return there.Create(ctx, secret)
	default:
		secret.Data = data
		return there.Update(ctx, secret)
	}
}

// awaitSecret waits until a Secret in the broker's cluster holds a valid certificate. If the playground was stopped
// for long, cert-manager must first renew the certificate.
func (p *Product) awaitSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, issueTimeout, true, func(ctx context.Context) (bool, error) {
		err := p.broker.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, secret)
		return err == nil && isValid(secret) && len(secret.Data["ca.crt"]) > 0, client.IgnoreNotFound(err)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for Secret %q in the broker's cluster: %w", name, err)
	}
	return secret, nil
}
