package clusters

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Broker and agents are replaced while pods run on a reservation and others are made and
// given back all the time. It begins with an earlier version if there is one, else with
// this one.
func TestAnUpgradeUnderLoadLosesNothing(t *testing.T) {
	env := clustersOf(t)
	if previous := env.settings.Previous; previous != nil {
		check(t, env.Uninstall(t.Context()))
		// An earlier version reads no journal with records that it does not know.
		journal := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
		check(t, env.Broker.DeleteAndWait(t.Context(), journal, settleWithin))
		check(t, env.Install(t.Context(), *previous, nil))
		check(t, env.AwaitAdvertised(t.Context(), time.Minute))
	}
	check(t, env.EnsureNamespace(t.Context(), env.Broker, namespace))
	rome := env.Member("rome")
	r := ready(t, env, "upgrade")
	stays, err := env.Run(t.Context(), rome, r)
	check(t, err)

	load := startLoad(t, env)
	// The annotation replaces pods also where the version stays the same.
	pods := map[string]any{"podAnnotations": map[string]any{"example.com/upgraded": time.Now().Format(time.RFC3339)}}
	check(t, env.Install(t.Context(), env.settings.Version, pods))
	load.end(t)

	check(t, stays.Unchanged(t.Context()))
	check(t, rome.AwaitReady(t.Context(), r, time.Second))
	check(t, env.AwaitHeld(t.Context(), "rome", 1, time.Second))
	// Who works now can also end what others began.
	check(t, rome.DeleteDeployments(t.Context(), namespace))
	check(t, rome.DeleteAndWait(t.Context(), r, readyWithin))
}
