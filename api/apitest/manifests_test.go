// Package apitest holds the kinds of the product against a real API server.
package apitest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// readManifest reads a file that holds one object.
func readManifest(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, content)
}

// parse reads one object of YAML the way the API server does: numbers without a
// fraction are integers.
func parse(t *testing.T, manifest []byte) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.NewYAMLToJSONDecoder(bytes.NewReader(manifest)).Decode(object); err != nil {
		t.Fatalf("manifest is not one object: %v\n%s", err, manifest)
	}
	return object
}

// files lists what a pattern matches, and fails if that is nothing.
func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatalf("no file matches %q", pattern)
	}
	return names
}
