package local

import (
	"context"
	"fmt"
	"testing"
	"time"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// TestUpgradeLosesNoCallAndNoReservation upgrades the broker's release: its replicas are replaced one after the other
// while clusters call it and request capacity.
func TestUpgradeLosesNoCallAndNoReservation(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	before, err := env.Available(t.Context())
	check(t, err)
	stays, _ := readyRequest(t, rome, "before-the-upgrade", small())
	pods := run(t, env, rome, stays)
	calls := callAllTheTime(t, env, "berlin", 5)

	values := env.Product.Values("broker")
	t.Cleanup(func() { check(t, env.Product.Upgrade(context.Background(), "broker", values)) })
	upgraded := env.Product.Values("broker")
	upgraded["podAnnotations"] = map[string]any{"upgraded": fmt.Sprint(time.Now().UnixNano())}
	done := make(chan error, 1)
	pids := pidsOf(env, "broker")
	go func() { done <- env.Product.Upgrade(t.Context(), "broker", upgraded) }()

	var asked []*agentv1alpha1.ResourceRequest
	for rolling := true; rolling; {
		select {
		case err := <-done:
			check(t, err)
			rolling = false
		case <-time.After(500 * time.Millisecond):
		}
		if len(asked) == 6 {
			continue
		}
		r, err := rome.Request(t.Context(), namespace, fmt.Sprintf("meanwhile-%d", len(asked)+1), small())
		check(t, err)
		asked = append(asked, r)
	}
	for replica, pid := range pidsOf(env, "broker") {
		if pid == pids[replica] {
			t.Errorf("%s is still process %d", replica, pid)
		}
	}
	for _, r := range asked {
		check(t, rome.AwaitReady(t.Context(), r, readyWithin))
	}
	check(t, env.AwaitHeld(t.Context(), "rome", len(asked)+1, patience))
	calls.noneLost(t)
	check(t, pods.Unchanged(t.Context()))
	check(t, rome.DeleteDeployments(t.Context(), namespace))
	for _, r := range append(asked, stays) {
		check(t, rome.DeleteAndWait(t.Context(), r, patience))
	}
	check(t, env.AwaitAvailable(t.Context(), before, patience))
}

func pidsOf(env *Environment, name string) map[string]int {
	pids := map[string]int{}
	for _, pod := range env.Product.Pods(name) {
		pids[pod.Name()] = pod.Process().Pid()
	}
	return pids
}
