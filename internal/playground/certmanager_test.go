package playground

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"context"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

const issuance = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: bootstrap, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: ca, namespace: default}
spec: {isCA: true, commonName: ca, secretName: ca, issuerRef: {name: bootstrap}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: ca, namespace: default}
spec: {ca: {secretName: ca}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: server, namespace: default}
spec: {dnsNames: [server.default.svc], secretName: server, issuerRef: {name: ca}}
`

const nameless = `
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: nameless, namespace: default}
spec: {secretName: nameless, issuerRef: {name: ca}}
`

func TestCertManagerIssuesAndRefuses(t *testing.T) {
	cluster := &Cluster{ControlPlane: controlplanetest.Start(t)}
	tools, err := toolchain.New(progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := tools.Ensure(t.Context(), toolchain.CertManager); err != nil {
		t.Fatal(err)
	}
	chart, err := certManagerChart(t.Context(), tools)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.startCertManager(t.Context(), chart, tools, Options{Progress: progress.Discard}); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(text string) error {
		objects, err := manifest.Read([]byte(text))
		if err != nil {
			return err
		}
		return manifest.Apply(t.Context(), c, objects)
	}
	if err := apply(issuance); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "server"}, secret)
		return err == nil && len(secret.Data["ca.crt"]) > 0, client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Fatalf("no certificate of the CA: %v", err)
	}
	if err := apply(nameless); err == nil || !strings.Contains(err.Error(), "at least one of commonName") {
		t.Errorf("a certificate without a subject: got %v, want cert-manager's webhook to refuse it", err)
	}
}
