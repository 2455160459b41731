package apitest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// testExamples applies docs/examples the way a reader does, and checks that the README lists
// them all.
func (s apiServer) testExamples(t *testing.T) {
	list, err := os.ReadFile("../../docs/examples/README.md")
	runtest.Check(t, err)
	// Remove the BrokerConfig of the samples: only one may exist.
	sample := readManifest(t, "../../config/samples/broker_v1alpha1_brokerconfig.yaml")
	runtest.Check(t, s.Delete(t.Context(), sample))
	for _, name := range matchFiles(t, "../../docs/examples/*/*.yaml") {
		short := strings.TrimPrefix(filepath.ToSlash(name), "../../docs/examples/")
		t.Run(short, func(t *testing.T) {
			content, err := os.ReadFile(name)
			runtest.Check(t, err)
			if !bytes.HasPrefix(content, []byte("# ")) {
				t.Error("an example begins with a comment that says what it is for")
			}
			if !bytes.Contains(list, []byte("("+short+")")) {
				t.Error("docs/examples/README.md does not list it")
			}
			objects, err := manifest.Read(content)
			runtest.Check(t, err)
			for _, obj := range objects {
				err := s.Patch(t.Context(), obj, client.Apply, client.FieldOwner("reader"), client.ForceOwnership) //nolint:staticcheck // typed apply configurations are not for what is read from files
				if err != nil {
					t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
				}
			}
		})
	}
}
