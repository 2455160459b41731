package requirements

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func TestAmountsOfHugepagesAreWholePages(t *testing.T) {
	const mi, gi = 1 << 20, 1 << 30
	for _, tt := range []struct {
		name   corev1.ResourceName
		amount int64
		want   string
	}{
		{"hugepages-1Gi", 2 * gi, ""},
		{"hugepages-1Gi", 0, ""},
		{"hugepages-1Gi", 1536 * mi, "hugepages-1Gi: 1536Mi is not a multiple of the page size 1Gi"},
		{"hugepages-2Mi", 3 * mi, "hugepages-2Mi: 3Mi is not a multiple"},
		{"hugepages-2Mi", 4 * mi, ""},
		{"ephemeral-storage", 3, ""},
		{"hugepages-large", 3, ""},
	} {
		err := CheckNode(quantity.Amounts{corev1.ResourceCPU: 1000, corev1.ResourceMemory: gi, tt.name: tt.amount})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %d: got %v, want %q", tt.name, tt.amount, err, tt.want)
		}
	}
}
