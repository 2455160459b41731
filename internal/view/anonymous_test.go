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
	names.LearnName("user", "bob@id.example.com")
	for text, want := range map[string]string{
		"bob@id.example.com: lookup api.paris.example.com on 10.0.0.10:53: no such host":                      "user-2: lookup ADDRESS on ADDRESS: no such host",
		"dial tcp [2001:db8::1]:6443, fe80::1 and api.rome.example.com:6443 at 12:00:00":                      "dial tcp ADDRESS, ADDRESS and ADDRESS at 12:00:00",
		"spec.constraints.regions of clusteradvertisements.broker.fluidos.eu, 2 gpu.intel.com/i915 of v1.2.3": "spec.constraints.regions of clusteradvertisements.broker.fluidos.eu, 2 gpu.intel.com/i915 of v1.2.3",
	} {
		if got := names.ReplaceText(text); got != want {
			t.Errorf("a text becomes %q, want %q", got, want)
		}
	}
	if got := names.ReplaceText("parisian rome-2, liqo-tenant-rome and res-k3v9x2m7qa-1"); got != "parisian cluster-2-2, liqo-tenant-cluster-2 and res-k3v9x2m7qa-1" {
		t.Errorf("a text becomes %q", got)
	}
}
