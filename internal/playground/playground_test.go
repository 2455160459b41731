package playground_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

func TestPlaygroundBootsAndComesBack(t *testing.T) {
	dir := t.TempDir()
	for _, boot := range []string{"first boot", "second boot"} {
		t.Run(boot, func(t *testing.T) {
			started := time.Now()
			p, err := playground.Up(t.Context(), playground.Options{
				Dir:      dir,
				Progress: progress.Func(func(step string) { t.Logf("%5.1fs %s", time.Since(started).Seconds(), step) }),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := p.Stop(); err != nil {
					t.Error(err)
				}
			})
			status, err := playground.Inspect(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			nodes := map[string][2]int{}
			for _, c := range status.Clusters {
				if c.Err != nil {
					t.Errorf("cluster %q: %v", c.Name, c.Err)
				}
				nodes[c.Name] = [2]int{c.Ready, c.Nodes}
			}
			want := map[string][2]int{"broker": {0, 0}, "rome": {2, 2}, "paris": {2, 2}, "berlin": {2, 2}}
			if diff := cmp.Diff(want, nodes); diff != "" {
				t.Errorf("ready nodes of all (-want +got):\n%s", diff)
			}
		})
	}
	_ = context.Background
}
