//go:build clusters

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
	nothingIsLost(t, env, func() { check(t, env.Install(t.Context(), env.settings.Version, otherPods())) })
}

// As above, back to the values of before.
func TestARollbackUnderLoadLosesNothing(t *testing.T) {
	env := clustersOf(t)
	before := map[string]int{}
	for name, release := range env.releases() {
		var err error
		before[name], err = env.Cluster(name).revision(t.Context(), release)
		check(t, err)
	}
	check(t, env.Install(t.Context(), env.settings.Version, otherPods()))
	nothingIsLost(t, env, func() {
		check(t, env.Cluster(BrokerCluster).rollback(t.Context(), BrokerRelease, before[BrokerCluster]))
		check(t, env.eachMember(func(id string) error {
			return env.Cluster(id).rollback(t.Context(), AgentRelease, before[id])
		}))
	})
}

// otherPods are values that replace pods also where the version stays the same.
func otherPods() values {
	return values{"podAnnotations": values{"example.com/changed": time.Now().Format(time.RFC3339Nano)}}
}

// nothingIsLost replaces the product under load.
func nothingIsLost(t *testing.T, env *Environment, replace func()) {
	t.Helper()
	check(t, env.EnsureNamespace(t.Context(), env.Broker, namespace))
	rome := env.Member("rome")
	r := ready(t, env, "stays")
	stays, err := env.Run(t.Context(), rome, r)
	check(t, err)

	load := startLoad(t, env)
	replace()
	load.end(t)

	check(t, stays.Unchanged(t.Context()))
	check(t, rome.AwaitReady(t.Context(), r, time.Second))
	check(t, env.AwaitHeld(t.Context(), "rome", 1, time.Second))
	// Who works now can also end what others began.
	check(t, rome.DeleteDeployments(t.Context(), namespace))
	check(t, rome.DeleteAndWait(t.Context(), r, readyWithin))
}
