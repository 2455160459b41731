package local

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/product"
)

// TestCertificatesAreRenewedUnderARunningReservation makes cert-manager reissue every certificate with a new key,
// while pods run on a virtual node and callers use the broker continuously.
func TestCertificatesAreRenewedUnderARunningReservation(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	r, _ := readyRequest(t, rome, "renewed", small())
	pods := run(t, env, rome, r)
	calls := callAllTheTime(t, env, "berlin", 5)

	for range 3 {
		before := served(t, env)
		renew(t, env.Broker, "broker-tls", "broker-webhook-tls")
		check(t, e2e.Await(t.Context(), patience, func(context.Context) (string, error) {
			if served(t, env) == before {
				return "the broker to show its new certificate", nil
			}
			return "", nil
		}))
	}
	for _, c := range env.Members {
		renew(t, c, "agent-webhook-tls")
	}
	// Berlin does not enrol: its administrator copies the new certificate.
	renew(t, env.Broker, "broker-agent-berlin")
	check(t, env.Product.Carry(t.Context(), "berlin"))

	// The webhooks use their new certificates, and new reservations succeed.
	second, _ := readyRequest(t, rome, "after-the-renewal", withGPU())
	if second.Status.TargetClusterID != "berlin" {
		t.Errorf("on %s, want berlin", second.Status.TargetClusterID)
	}
	calls.noneLost(t)
	check(t, rome.AwaitReady(t.Context(), r, e2e.Once))
	check(t, pods.Unchanged(t.Context()))
}

var certificateKind = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}

// renew makes cert-manager reissue certificates, like "cmctl renew", and waits until their Secrets have changed.
func renew(t *testing.T, c *e2e.Cluster, names ...string) {
	t.Helper()
	before := map[string]string{}
	for _, name := range names {
		before[name] = issued(t, c, name)
		check(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			certificate := e2e.Object(certificateKind, product.Namespace, name)
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(certificate), certificate); err != nil {
				return err
			}
			conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
			if err != nil {
				return err
			}
			conditions = append(conditions, map[string]any{
				"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "a test asks for it",
				"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339),
			})
			if err := unstructured.SetNestedSlice(certificate.Object, conditions, "status", "conditions"); err != nil {
				return err
			}
			return c.Status().Update(t.Context(), certificate)
		}))
	}
	for _, name := range names {
		check(t, e2e.Await(t.Context(), patience, func(context.Context) (string, error) {
			if issued(t, c, name) == before[name] || beingIssued(t, c, name) {
				return fmt.Sprintf("cert-manager to reissue Certificate %q in %s", name, c.Name), nil
			}
			return "", nil
		}))
	}
}

// beingIssued reports whether cert-manager is still working on a certificate. cert-manager writes the new Secret first
// and removes the condition Issuing afterwards, so a new Secret does not show that it is done.
func beingIssued(t *testing.T, c *e2e.Cluster, name string) bool {
	t.Helper()
	certificate := e2e.Object(certificateKind, product.Namespace, name)
	check(t, c.Get(t.Context(), client.ObjectKeyFromObject(certificate), certificate))
	conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	check(t, err)
	return slices.ContainsFunc(conditions, func(condition any) bool {
		return condition.(map[string]any)["type"] == "Issuing"
	})
}

// issued returns the private key of a certificate, which changes with every issue.
func issued(t *testing.T, c *e2e.Cluster, name string) string {
	t.Helper()
	secret := &corev1.Secret{}
	check(t, c.Get(t.Context(), client.ObjectKey{Namespace: product.Namespace, Name: name}, secret))
	return string(secret.Data[corev1.TLSPrivateKeyKey])
}

// served returns the serial number of the certificate on a new connection to the broker.
func served(t *testing.T, env *Environment) string {
	t.Helper()
	address, err := env.Product.URL()
	check(t, err)
	at, err := url.Parse(address)
	check(t, err)
	serial := ""
	// The broker refuses the caller, which has no certificate, after it has sent its own.
	conn, err := tls.Dial("tcp", at.Host, &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // only the serial number is read
		VerifyConnection: func(state tls.ConnectionState) error {
			serial = state.PeerCertificates[0].SerialNumber.String()
			return nil
		},
	})
	if err == nil {
		err = conn.Close()
	}
	if serial == "" {
		check(t, errors.Join(errors.New("the broker shows no certificate"), err))
	}
	return serial
}
