package liqo

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/authority"
)

// webhookSecret is where Liqo's webhook keeps its certificate.
const webhookSecret = "liqo-webhook-certs"

// webhookFiles is the webhook's certificate, and the TMPDIR under which the webhook
// looks for it: its folder is fixed relative to the temporary folder, so each
// cluster's webhook gets a temporary folder of its own.
type webhookFiles struct {
	tmp                  string
	ca, certificate, key []byte
}

func webhookCertificates(dir string) (webhookFiles, error) {
	serving := filepath.Join(dir, "tmp", "k8s-webhook-server", "serving-certs")
	if err := ensureDir(serving); err != nil {
		return webhookFiles{}, err
	}
	ca, err := authority.Open(dir, "liqo-webhook", time.Now)
	if err != nil {
		return webhookFiles{}, err
	}
	w := webhookFiles{tmp: filepath.Join(dir, "tmp"), ca: ca.PEM()}
	certificate, key := filepath.Join(serving, "tls.crt"), filepath.Join(serving, "tls.key")
	if _, err := os.Stat(key); err != nil {
		name := "liqo-webhook." + Namespace + ".svc"
		if _, _, err := ca.IssueFiles(serving, "tls", authority.Subject{CommonName: name, Hosts: []string{name, name + ".cluster.local", "localhost"}}); err != nil {
			return webhookFiles{}, err
		}
	}
	if w.certificate, err = os.ReadFile(certificate); err != nil {
		return webhookFiles{}, fmt.Errorf("certificate of Liqo's webhook: %w", err)
	}
	if w.key, err = os.ReadFile(key); err != nil {
		return webhookFiles{}, fmt.Errorf("key of Liqo's webhook: %w", err)
	}
	return w, nil
}
