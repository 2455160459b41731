package apitest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
)

// definitions matches the files of the product's CRDs.
const definitions = "../../charts/*/files/crds/*.yaml"

const (
	poll    = 50 * time.Millisecond
	timeout = 30 * time.Second
)

// apiServer is an API server with the product's CRDs.
type apiServer struct {
	client.Client
	config *rest.Config
}

// TestCRDs runs all tests of the CRDs on one API server.
func TestCRDs(t *testing.T) {
	config := controlplanetest.Start(t).RESTConfig()
	kubernetes, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server := apiServer{Client: client.WithFieldValidation(kubernetes, metav1.FieldValidationStrict), config: config}
	server.awaitNamespace(t, metav1.NamespaceDefault)

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

// awaitNamespace waits for a namespace that the API server creates itself.
func (s apiServer) awaitNamespace(t *testing.T, name string) {
	t.Helper()
	s.awaitSuccess(t, "namespace "+name, func(ctx context.Context) error {
		return s.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
	})
}

// createCRD creates a CRD and waits until it is established. The API server refuses a CRD whose
// rules may cost too much.
func (s apiServer) createCRD(t *testing.T, name string) {
	crd := readManifest(t, name)
	if err := s.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	s.awaitSuccess(t, "Established of "+crd.GetName(), func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		if conditionStatus(crd, "Established") != string(metav1.ConditionTrue) {
			return errors.New("not established")
		}
		return nil
	})
}

// awaitSuccess repeats a check until it succeeds.
func (s apiServer) awaitSuccess(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), poll, timeout, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v: %v", what, err, last)
	}
}

// createNamespace creates a namespace for one test.
func (s apiServer) createNamespace(t *testing.T, name string) string {
	t.Helper()
	if err := s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		t.Fatal(err)
	}
	return name
}

// readObject reads the stored version of an object.
func (s apiServer) readObject(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	fresh := &unstructured.Unstructured{}
	fresh.SetGroupVersionKind(object.GroupVersionKind())
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(object), fresh); err != nil {
		t.Fatal(err)
	}
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
