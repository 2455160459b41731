package apitest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// definitions matches the files of the product's CRDs.
const definitions = "../../charts/*/files/crds/*.yaml"

// apiServer is an API server with the product's CRDs.
type apiServer struct {
	client.Client
	config *rest.Config
}

// TestCRDs runs all tests of the CRDs on one API server.
func TestCRDs(t *testing.T) {
	config := controlplanetest.Start(t).RESTConfig()
	kubernetes, err := client.New(config, client.Options{})
	runtest.Check(t, err)
	server := apiServer{Client: client.WithFieldValidation(kubernetes, metav1.FieldValidationStrict), config: config}
	runtest.Eventually(t, func(ctx context.Context) error { // the API server itself creates this namespace
		return server.Get(ctx, client.ObjectKey{Name: metav1.NamespaceDefault}, &corev1.Namespace{})
	})

	for _, name := range matchFiles(t, definitions) {
		t.Run("the API server takes "+filepath.Base(name), func(t *testing.T) { server.createCRD(t, name) })
	}
	if t.Failed() {
		t.Fatal("the other tests need all CRDs")
	}
	t.Run("published manifests", server.testPublishedManifests)
	t.Run("samples", server.testSamples)
	t.Run("examples", server.testExamples)
	t.Run("defaulted status", server.testDefaultedStatus)
	t.Run("columns", server.testColumns)
	t.Run("field selectors", server.testFieldSelectors)
}

// createCRD creates a CRD and waits until it is established. The API server refuses a CRD whose
// rules may cost too much.
func (s apiServer) createCRD(t *testing.T, name string) {
	crd := readManifest(t, name)
	runtest.Check(t, s.Create(t.Context(), crd))
	runtest.Eventually(t, func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		if conditionStatus(crd, "Established") != string(metav1.ConditionTrue) {
			return fmt.Errorf("%s is not established", name)
		}
		return nil
	})
}

// createNamespace creates a namespace for one test.
func (s apiServer) createNamespace(t *testing.T, name string) string {
	t.Helper()
	runtest.Check(t, s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	return name
}

// readObject reads the stored version of an object.
func (s apiServer) readObject(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	fresh := &unstructured.Unstructured{}
	fresh.SetGroupVersionKind(object.GroupVersionKind())
	runtest.Check(t, s.Get(t.Context(), client.ObjectKeyFromObject(object), fresh))
	return fresh
}

// conditionStatus returns the status of a condition, or "" if the condition is absent.
func conditionStatus(object *unstructured.Unstructured, conditionType string) string {
	for _, condition := range conditionsOf(object) {
		if condition["type"] == conditionType {
			status, _ := condition["status"].(string)
			return status
		}
	}
	return ""
}

// conditionsOf returns an object's conditions. Absent and malformed conditions count as none.
func conditionsOf(object *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var out []map[string]any
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok {
			out = append(out, condition)
		}
	}
	return out
}
