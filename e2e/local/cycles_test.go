package local

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// cycles returns the number of repetitions: many under make soak, otherwise few.
func cycles(few, many int) int {
	if os.Getenv("LRB_SOAK") != "" {
		return many
	}
	return few
}

// TestCyclesLeaveNothing checks in repeated cycles that every created object is deleted again.
func TestCyclesLeaveNothing(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	before := settledCensusOf(t, env)
	secrets := canaries{}
	began := time.Now()
	for i := range cycles(5, 50) {
		r, _ := readyRequest(t, rome, fmt.Sprintf("cycle-%d", i), small())
		if i == 0 {
			run(t, env, rome, r)
			secrets.gather(t, env)
			secrets.wantInNoObject(t, env)
			secrets.wantNotLeaked(t, env)
			check(t, rome.DeleteDeployments(ctx, namespace))
		}
		check(t, rome.DeleteAndWait(ctx, r, patience))
	}
	t.Logf("%d cycles: %.1f s", cycles(5, 50), time.Since(began).Seconds())
	awaitCensus(t, env, before)
	secrets.wantNotLeaked(t, env)
}

// censusOf returns all objects in the members, and the processes that run for them.
func censusOf(t *testing.T, env *Environment) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for id, c := range env.Members {
		census, err := c.Census(t.Context())
		check(t, err)
		for _, p := range env.Playground.Clusters[id].Processes().Processes() {
			census["process "+p.Name()] = ""
		}
		all[id] = census
	}
	return all
}

// settledCensusOf is censusOf, after it has waited until the deletions of earlier tests are
// complete.
func settledCensusOf(t *testing.T, env *Environment) map[string]map[string]string {
	t.Helper()
	var all map[string]map[string]string
	check(t, e2e.Await(t.Context(), patience, func(context.Context) (string, error) {
		all = censusOf(t, env)
		for id, census := range all {
			for name, state := range census {
				if state != "" {
					return fmt.Sprintf("%s in %s to be gone, it is %s", name, id, state), nil
				}
			}
		}
		return "", nil
	}))
	return all
}

// awaitCensus waits until the objects and processes equal those of an earlier census.
func awaitCensus(t *testing.T, env *Environment, want map[string]map[string]string) {
	t.Helper()
	check(t, env.AwaitClean(t.Context(), patience))
	check(t, e2e.Await(t.Context(), patience, func(context.Context) (string, error) {
		if diff := cmp.Diff(want, censusOf(t, env)); diff != "" {
			return "everything to be as it was (-before +after):\n" + diff, nil
		}
		return "", nil
	}))
}
