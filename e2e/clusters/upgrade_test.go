//go:build clusters

package clusters

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpgradeUnderLoadKeepsPodsAndReservations replaces broker and agents while pods run on a reservation and other
// reservations come and go. It starts with the earlier version if there is one.
func TestUpgradeUnderLoadKeepsPodsAndReservations(t *testing.T) {
	env := clustersOf(t)
	if previous := env.settings.Previous; previous != nil {
		check(t, env.Uninstall(t.Context()))
		// An earlier version cannot read a journal with unknown record types.
		journal := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
		check(t, env.Broker.DeleteAndWait(t.Context(), journal, settleWithin))
		check(t, env.Install(t.Context(), *previous, nil))
		check(t, env.AwaitAdvertised(t.Context(), time.Minute))
	}
	nothingIsLost(t, env, func() { check(t, env.Install(t.Context(), env.settings.Version, otherPods())) })
}

// TestRollbackUnderLoadKeepsPodsAndReservations rolls back to the earlier values instead of
// upgrading. Pods and reservations must be unaffected.
func TestRollbackUnderLoadKeepsPodsAndReservations(t *testing.T) {
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

// otherPods returns values that replace pods even if the version is the same.
func otherPods() values {
	return values{"podAnnotations": values{"example.com/changed": time.Now().Format(time.RFC3339Nano)}}
}

// nothingIsLost replaces the product under load and checks that no pod and no reservation was affected.
func nothingIsLost(t *testing.T, env *Environment, replace func()) {
	t.Helper()
	check(t, env.EnsureNamespace(t.Context(), env.Broker, namespace))
	rome := env.Member("rome")
	r := readyRequest(t, env, "stays")
	stays, err := env.Run(t.Context(), rome, r)
	check(t, err)

	load := startLoad(t, env)
	replace()
	load.end(t)

	check(t, stays.Unchanged(t.Context()))
	check(t, rome.AwaitReady(t.Context(), r, time.Second))
	check(t, env.AwaitHeld(t.Context(), "rome", 1, time.Second))
	// The new agents can also end what the old ones began.
	check(t, rome.DeleteDeployments(t.Context(), namespace))
	check(t, rome.DeleteAndWait(t.Context(), r, readyWithin))
}
