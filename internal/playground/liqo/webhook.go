package liqo

import (
	"encoding/base64"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/authority"
)

// Names of the Service of Liqo's webhook and of the Secret with its certificate.
const (
	webhookService = "liqo-webhook"
	webhookSecret  = "liqo-webhook-certs"
)

// webhookDir returns the webhook's working directory. It is also its folder for temporary files, from which it reads
// its certificate.
func (c Cluster) webhookDir() string { return filepath.Join(c.Dir(), webhookService) }

// pointToWebhook makes the Service refer to this machine. It changes the Service's type to ExternalName, because the
// API server resolves such a Service itself, without kube-proxy.
func pointToWebhook(service *unstructured.Unstructured, port int) {
	service.Object["spec"] = map[string]any{
		"type": "ExternalName", "externalName": "localhost",
		"ports": []any{map[string]any{"name": "https", "port": int64(port), "protocol": "TCP"}},
	}
}

// fillCertificate writes a certificate into the Secret. Otherwise Liqo would generate RSA keys, which takes seconds.
func (c Cluster) fillCertificate(secret *unstructured.Unstructured) error {
	ca, err := authority.Open(c.webhookDir(), webhookService, c.Clock.Now)
	if err != nil {
		return err
	}
	host := webhookService + "." + Namespace + ".svc"
	pair, err := ca.Issue(authority.Subject{CommonName: host, Hosts: []string{host}})
	if err != nil {
		return err
	}
	data := map[string]any{}
	for key, value := range map[string][]byte{"ca": ca.PEM(), "tls.crt": pair.Certificate, "tls.key": pair.Key} {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	secret.Object["data"] = data
	return nil
}
