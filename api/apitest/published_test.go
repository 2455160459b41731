package apitest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// testPublishedManifests applies the published manifests of earlier versions unchanged. Like
// every object with a status subresource, the status in them is checked for unknown fields and
// dropped.
func (s apiServer) testPublishedManifests(t *testing.T) {
	namespace := s.createNamespace(t, "published")
	for _, name := range matchFiles(t, "testdata/manifests/*.yaml") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			manifest := readManifest(t, name)
			printed := manifest.DeepCopy()
			manifest.SetNamespace(namespace)
			if manifest.GetName() == "" {
				manifest.SetName("given")
			}
			runtest.Check(t, s.Create(t.Context(), manifest))
			if diff := cmp.Diff(printed.Object["spec"], s.readObject(t, manifest).Object["spec"]); diff != "" {
				t.Errorf("spec that was stored (-printed +stored):\n%s", diff)
			}
		})
	}
}

// testSamples applies config/samples and checks that they cover every CRD.
func (s apiServer) testSamples(t *testing.T) {
	shown := map[string]bool{}
	for _, name := range matchFiles(t, "../../config/samples/*.yaml") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			content, err := os.ReadFile(name)
			runtest.Check(t, err)
			if !bytes.HasPrefix(content, []byte("# ")) {
				t.Error("a sample begins with a comment that says what it is for")
			}
			sample := parseObject(t, content)
			runtest.Check(t, s.Create(t.Context(), sample))
			shown[sample.GroupVersionKind().GroupKind().String()] = true
		})
	}
	for _, name := range matchFiles(t, definitions) {
		if kind := definedKind(t, name); !shown[kind] {
			t.Errorf("config/samples has no %s", kind)
		}
	}
}

// definedKind returns the Kind.group that a CRD file defines.
func definedKind(t *testing.T, name string) string {
	t.Helper()
	crd := readManifest(t, name)
	kind, _, err := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	runtest.Check(t, err)
	group, _, err := unstructured.NestedString(crd.Object, "spec", "group")
	runtest.Check(t, err)
	return kind + "." + group
}
