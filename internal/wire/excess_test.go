package wire

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func TestExcessMessageCountsEvictedPods(t *testing.T) {
	for name, tc := range map[string]struct {
		pods int32
		want string
	}{
		"before the first eviction": {0, `"paris" evicts pods that exceed what was granted by 300m of cpu: run no more`},
		"afterwards":                {2, `"paris" evicted 2 pods that exceeded what was granted by 300m of cpu: run no more`},
	} {
		t.Run(name, func(t *testing.T) {
			excess := &agentv1alpha1.Excess{Pods: tc.pods, Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}}
			if got := ExcessMessage("paris", excess); !strings.HasPrefix(got, tc.want) {
				t.Errorf("got %q, want it to begin with %q", got, tc.want)
			}
		})
	}
}
