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
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
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
	runtest.Check(t, err)
	runtest.Check(t, tools.Ensure(t.Context(), toolchain.CertManager))
	chart, err := certManagerChart(t.Context(), tools)
	runtest.Check(t, err)
	runtest.Check(t, cluster.startCertManager(t.Context(), chart, tools, Options{Progress: progress.Discard}))
	c, err := client.New(cluster.RESTConfig(), client.Options{})
	runtest.Check(t, err)
	apply := func(text string) error {
		objects, err := manifest.Read([]byte(text))
		if err != nil {
			return err
		}
		return manifest.Apply(t.Context(), c, objects)
	}
	runtest.Check(t, apply(issuance))
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
