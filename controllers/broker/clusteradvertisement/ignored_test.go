package clusteradvertisement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func resources(cpu, memory string) corev1.ResourceList {
	out := corev1.ResourceList{}
	if cpu != "" {
		out[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		out[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return out
}

func managedBy(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
}

func TestForeignFiguresAreReported(t *testing.T) {
	const (
		reservedCPU  = `{"f:spec":{"f:resources":{"f:reserved":{"f:cpu":{}}}}}`
		availableAll = `{"f:spec":{"f:resources":{"f:available":{".":{},"f:cpu":{},"f:memory":{}}}}}`
	)
	right := figures{reserved: resources("1", ""), available: resources("7", "8Gi")}
	cases := map[string]struct {
		written figures
		managed []metav1.ManagedFieldsEntry
		want    []figureChange
		authors []string
	}{
		"an outdated figure of the broker is not reported": {
			written: figures{reserved: resources("2", "")},
			managed: []metav1.ManagedFieldsEntry{managedBy(string(fieldOwner), reservedCPU)},
		},
		"a figure that an agent wrote is reported": {
			written: figures{reserved: resources("0", "")},
			managed: []metav1.ManagedFieldsEntry{managedBy("agent", reservedCPU)},
			want:    []figureChange{{"reserved", "cpu", "0", "1"}}, authors: []string{"agent"},
		},
		"only the wrong one of two fields is reported": {
			written: figures{reserved: resources("1", ""), available: resources("7", "9Gi")},
			managed: []metav1.ManagedFieldsEntry{managedBy(string(fieldOwner), reservedCPU), managedBy("kubectl-edit", availableAll)},
			want:    []figureChange{{"available", "memory", "9Gi", "8Gi"}}, authors: []string{"kubectl-edit"},
		},
		"the same amount in another notation is no change": {
			written: figures{available: resources("7000m", "8192Mi")},
			managed: []metav1.ManagedFieldsEntry{managedBy("kubectl", availableAll)},
		},
		"unreadable managed fields are skipped": {
			written: figures{available: resources("", "1Gi")},
			managed: []metav1.ManagedFieldsEntry{managedBy("kubectl", availableAll), {Manager: "old"}, managedBy("broken", "{")},
			want:    []figureChange{{"available", "memory", "1Gi", "8Gi"}}, authors: []string{"kubectl"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, authors := foreignChanges(tc.written.changesFrom(right), tc.managed)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(figureChange{})); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.authors, authors); diff != "" {
				t.Errorf("authors (-want +got):\n%s", diff)
			}
		})
	}
}
