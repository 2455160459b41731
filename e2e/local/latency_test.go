package local

import "testing"

// TestRequestToReadyNode measures the time from applying a request to its Ready virtual node, and compares it with
// liqoctl. Cold clusters were never peered; warm clusters are already peered by another reservation. Package
// e2e/bench measures the published figures on a quiet machine.
func TestRequestToReadyNode(t *testing.T) {
	env := playgroundOf(t)
	times, err := env.MeasurePeering(t.Context(), 2)
	check(t, err)
	for _, c := range []struct {
		kind string
		Comparison
	}{{"cold", times.Cold}, {"warm", times.Warm}} {
		if len(c.Request) == 0 || len(c.Request) != len(c.Liqoctl) {
			t.Errorf("%s: %d requests beside %d times liqoctl, want as many", c.kind, len(c.Request), len(c.Liqoctl))
		}
		t.Logf("%s: requests %v, liqoctl %v", c.kind, c.Request, c.Liqoctl)
	}
	guards, err := env.MeasureGuards(t.Context(), 2, 0, 1)
	check(t, err)
	if len(guards.Cold.With) != len(guards.Cold.Without) || len(guards.Warm.With) == 0 {
		t.Errorf("with guards %d and %d, without %d", len(guards.Cold.With), len(guards.Warm.With), len(guards.Cold.Without))
	}
	t.Logf("with guards %v, without %v", guards.Cold.With, guards.Cold.Without)
	promises, err := env.MeasurePromises(t.Context(), 1)
	check(t, err)
	if len(promises.Rights) != 1 || len(promises.Excess) != 1 {
		t.Errorf("%d times for rights and %d for excess, want 1 each", len(promises.Rights), len(promises.Excess))
	}
	t.Logf("rights ended after %v, excess after %v", promises.Rights, promises.Excess)
}
