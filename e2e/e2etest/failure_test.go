package e2etest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestFailureNamesPhaseResourcesAndUnmetConditions(t *testing.T) {
	request := &unstructured.Unstructured{Object: map[string]any{
		"kind": "ResourceRequest", "metadata": map[string]any{"namespace": "e2e", "name": "survivor"},
		"status": map[string]any{"phase": "Active", "message": "change agreed", "conditions": []any{
			map[string]any{"type": "Ready", "status": "True", "message": "the node is ready"},
			map[string]any{"type": "Changed", "status": "Unknown", "message": "the provider has not answered"},
		}},
	}}
	slice := &unstructured.Unstructured{Object: map[string]any{
		"kind": "ResourceSlice", "metadata": map[string]any{
			"namespace": "liqo-tenant-rome", "name": "res-a-1", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []any{"kept"},
		},
		"spec": map[string]any{"resources": map[string]any{"cpu": "700m"}},
	}}
	got := []string{describeObject(request), describeObject(slice)}
	want := []string{
		"ResourceRequest e2e/survivor Active change agreed, Changed=Unknown: the provider has not answered",
		"ResourceSlice liqo-tenant-rome/res-a-1  , being deleted, kept by [kept], wants map[cpu:700m]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}
