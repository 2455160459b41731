package local

import (
	"testing"
	"time"
)

func TestReservationEndsWithoutAffectingItsSibling(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	first, _ := readyRequest(t, rome, "first", withGPU())
	second, _ := readyRequest(t, rome, "second", withGPU())
	if first.Status.TargetClusterID != "berlin" || second.Status.TargetClusterID != "berlin" {
		t.Fatalf("on %s and %s, want berlin for both", first.Status.TargetClusterID, second.Status.TargetClusterID)
	}
	if first.Status.NodeName == second.Status.NodeName {
		t.Fatalf("both have the virtual node %s", first.Status.NodeName)
	}
	run(t, env, rome, first)
	stays := run(t, env, rome, second)

	rights := keepIdentities(t, env, first, second)

	released := time.Now()
	check(t, rome.DeleteAndWait(t.Context(), first, patience))
	check(t, rome.AwaitNodeGone(t.Context(), first.Status.NodeName, patience))
	check(t, env.AwaitHeld(t.Context(), "rome", 1, patience))

	rights.wantEnded(t, first, released)
	rights.wantStanding(t, second)

	check(t, stays.Unchanged(t.Context()))
	check(t, rome.AwaitReady(t.Context(), second, readyWithin))

	check(t, rome.DeleteDeployments(t.Context(), namespace))
	released = time.Now()
	check(t, rome.DeleteAndWait(t.Context(), second, patience))
	rights.wantAllEnded(t, released)
}
