package local

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// How long from applying a request to its Ready virtual node, where the two clusters
// have nothing in common yet (cold) and where another reservation has peered them
// already (warm).
func TestRequestToReadyNode(t *testing.T) {
	env := playgroundOf(t)
	rome, paris := env.Member("rome"), env.Member("paris")
	var cold, warm []time.Duration
	measure := func(into *[]time.Duration, kind string, c *e2e.Cluster, resources corev1.ResourceList) {
		n := len(*into) + 1
		r, took := ready(t, c, fmt.Sprintf("%s-%d", kind, n), resources)
		t.Logf("%s %d: %.2f s, %s to %s", kind, n, took.Seconds(), c.Name, r.Status.TargetClusterID)
		*into = append(*into, took)
	}
	measure(&cold, "cold", rome, small())
	measure(&cold, "cold", rome, withGPU())
	measure(&cold, "cold", paris, withGPU())
	settle(t, env)
	measure(&cold, "cold", paris, withGPU())
	measure(&cold, "cold", rome, small())
	for range 5 {
		measure(&warm, "warm", rome, small())
	}
	t.Logf("median cold %.2f s, warm %.2f s", median(cold).Seconds(), median(warm).Seconds())
}

func median(figures []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(figures))[len(figures)/2]
}
