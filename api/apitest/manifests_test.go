// Package apitest tests the product's CRDs on a real API server.
package apitest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// readManifest reads a file with one object.
func readManifest(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(name)
	runtest.Check(t, err)
	return parseObject(t, content)
}

// parseObject reads one object of YAML like the API server: numbers without a fraction are
// integers.
func parseObject(t *testing.T, manifest []byte) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.NewYAMLToJSONDecoder(bytes.NewReader(manifest)).Decode(object); err != nil {
		t.Fatalf("manifest is not one object: %v\n%s", err, manifest)
	}
	return object
}

// matchFiles lists the files that match a pattern. It fails if there are none.
func matchFiles(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	runtest.Check(t, err)
	if len(names) == 0 {
		t.Fatalf("no file matches %q", pattern)
	}
	return names
}
