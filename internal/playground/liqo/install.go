package liqo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

// install applies the objects of the release, unless the last installation applied the
// same objects.
func (l *Liqo) install(ctx context.Context, r *release) error {
	c := l.cluster
	digest, err := r.digest()
	if err != nil {
		return err
	}
	done := filepath.Join(c.Dir(), "liqo-installed")
	if was, err := os.ReadFile(done); err == nil && string(was) == digest {
		return nil
	}
	if err := r.prepare(c, l.ports); err != nil {
		return err
	}
	cl, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}}
	if err := manifest.Install(ctx, cl, append([]manifest.Object{namespace}, r.crds...)); err != nil {
		return err
	}
	for _, obj := range r.objects {
		if err := manifest.Place(cl, obj, Namespace); err != nil {
			return err
		}
	}
	if err := manifest.Apply(ctx, cl, r.objects); err != nil {
		return err
	}
	return os.WriteFile(done, []byte(digest), 0o600)
}

func (r *release) digest() (string, error) {
	text, err := json.Marshal([]any{r.crds, r.objects})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
