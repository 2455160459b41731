package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPseudonymsHideWhoAndWhere(t *testing.T) {
	document := map[string]any{
		"kind": "ResourceRequest", "namespace": "team-a", "name": "train", "labels": map[string]any{"owner": "alice"},
		"spec": map[string]any{"cpu": "2", "constraints": map[string]any{"includeClusters": []any{"paris", "rome"}}},
		"status": map[string]any{
			"requestedBy": "alice@example.com, as reported by rome", "reservationName": "res-k3v9x2m7qa", "endpointURL": "https://10.0.0.1:6443",
			"message":    "paris (10.0.0.1:6443) holds it for team-a/train of alice@example.com",
			"conditions": []any{map[string]any{"type": "Ready", "reason": "Active", "lastTransitionTime": "2026-11-20T12:00:00Z"}},
		},
	}
	names := &Pseudonyms{}
	names.Learn(document)
	want := map[string]any{
		"kind": "ResourceRequest", "namespace": "namespace-1", "name": "object-1",
		"spec": map[string]any{"cpu": "2", "constraints": map[string]any{"includeClusters": []any{"cluster-1", "cluster-2"}}},
		"status": map[string]any{
			"requestedBy": "user-1, as reported by cluster-2", "reservationName": "res-k3v9x2m7qa", "endpointURL": "ADDRESS",
			"message":    "cluster-1 (ADDRESS) holds it for namespace-1/object-1 of user-1",
			"conditions": []any{map[string]any{"type": "Ready", "reason": "Active", "lastTransitionTime": "2026-11-20T12:00:00Z"}},
		},
	}
	if diff := cmp.Diff(want, names.Replace(document)); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
	if got := names.ReplaceText("parisian rome-2, liqo-tenant-rome and res-k3v9x2m7qa-1"); got != "parisian cluster-2-2, liqo-tenant-cluster-2 and res-k3v9x2m7qa-1" {
		t.Errorf("a text becomes %q", got)
	}
}
