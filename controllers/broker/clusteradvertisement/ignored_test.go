package clusteradvertisement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func list(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	if cpu != "" {
		out[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		out[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return out
}

func entry(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

func TestFiguresThatSomebodyElseWrote(t *testing.T) {
	const (
		reservedCPU  = `{"f:spec":{"f:resources":{"f:reserved":{"f:cpu":{}}}}}`
		availableAll = `{"f:spec":{"f:resources":{"f:available":{".":{},"f:cpu":{},"f:memory":{}}}}}`
	)
	right := figures{reserved: list("1", ""), available: list("7", "8Gi")}
	cases := map[string]struct {
		written figures
		managed []metav1.ManagedFieldsEntry
		want    []change
		authors []string
	}{
		"what the broker wrote and is out of date is not ignored": {
			written: figures{reserved: list("2", "")},
			managed: []metav1.ManagedFieldsEntry{entry(string(fieldOwner), reservedCPU)},
		},
		"what an agent wrote is": {
			written: figures{reserved: list("0", "")},
			managed: []metav1.ManagedFieldsEntry{entry("agent", reservedCPU)},
			want:    []change{{"reserved", "cpu", "0", "1"}}, authors: []string{"agent"},
		},
		"of two fields only the wrong one is": {
			written: figures{reserved: list("1", ""), available: list("7", "9Gi")},
			managed: []metav1.ManagedFieldsEntry{entry(string(fieldOwner), reservedCPU), entry("kubectl-edit", availableAll)},
			want:    []change{{"available", "memory", "9Gi", "8Gi"}}, authors: []string{"kubectl-edit"},
		},
		"the same amount in other words is no change": {
			written: figures{available: list("7000m", "8192Mi")},
			managed: []metav1.ManagedFieldsEntry{entry("kubectl", availableAll)},
		},
		"a resource that nothing is known of": {
			written: figures{available: list("", "1Gi")},
			managed: []metav1.ManagedFieldsEntry{entry("kubectl", availableAll), {Manager: "old"}, entry("broken", "{")},
			want:    []change{{"available", "memory", "1Gi", "8Gi"}}, authors: []string{"kubectl"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, authors := foreignChanges(tc.written.changes(right), tc.managed)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(change{})); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.authors, authors); diff != "" {
				t.Errorf("authors (-want +got):\n%s", diff)
			}
		})
	}
}
