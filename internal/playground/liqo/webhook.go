package liqo

import (
	"encoding/base64"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/authority"
)

// The webhook's Service, and the Secret in which it keeps its certificate.
const (
	webhookService = "liqo-webhook"
	webhookSecret  = "liqo-webhook-certs"
)

// webhookDir is the webhook's working directory and, because it reads its
// certificate from there, its folder for temporary files.
func (c Cluster) webhookDir() string { return filepath.Join(c.Dir(), webhookService) }

// leadToWebhook makes the Service point to this machine. The API server resolves
// the Service of a webhook by itself, without kube-proxy.
func leadToWebhook(service *unstructured.Unstructured, port int) {
	service.Object["spec"] = map[string]any{
		"type": "ExternalName", "externalName": "localhost",
		"ports": []any{map[string]any{"name": "https", "port": int64(port), "protocol": "TCP"}},
	}
}

// certify fills the Secret, which Liqo keeps if it is complete. Liqo would
// otherwise make RSA keys that take seconds to find.
func (c Cluster) certify(secret *unstructured.Unstructured) error {
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
