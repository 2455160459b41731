//go:build clusters

package clusters

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func TestHelmTest(t *testing.T) {
	env := clustersOf(t)
	for name, release := range env.releases() {
		said, err := env.Cluster(name).Helm(t.Context(), nil, "test", release, "--namespace", Namespace)
		if err != nil {
			t.Error(err)
		}
		t.Logf("%s: %s", name, said)
	}
}

// TestUninstallIsRefusedWhileReservationsLive checks that uninstalling is refused while capacity is reserved, and
// that everything keeps working. Afterwards only the CRDs and the journal remain, on purpose.
func TestUninstallIsRefusedWhileReservationsLive(t *testing.T) {
	env := clustersOf(t)
	t.Cleanup(func() { check(t, env.Install(context.Background(), env.settings.Version, nil)) })
	rome := env.Member("rome")
	r := readyRequest(t, env, "holds")
	stays, err := env.Run(t.Context(), rome, r)
	check(t, err)

	for name, release := range env.releases() {
		c := env.Cluster(name)
		if said, err := c.Helm(t.Context(), nil, "uninstall", release, "--namespace", Namespace, "--wait"); err == nil {
			t.Fatalf("%s was uninstalled with a live reservation: %s", name, said)
		}
		why, err := c.Kubectl(t.Context(), "logs", "--namespace", Namespace, "--selector", "app.kubernetes.io/component=uninstall")
		check(t, err)
		if !strings.Contains(why, r.Name) && !strings.Contains(why, r.Status.ReservationName) {
			t.Errorf("%s does not say what keeps it, %s or %s: %s", name, r.Name, r.Status.ReservationName, why)
		}
	}
	check(t, stays.Unchanged(t.Context()))

	check(t, rome.DeleteDeployments(t.Context(), namespace))
	check(t, rome.DeleteAndWait(t.Context(), r, readyWithin))
	check(t, env.Uninstall(t.Context()))
	for name := range env.releases() {
		left, err := env.Cluster(name).left(t.Context())
		check(t, err)
		if len(left) > 0 {
			t.Errorf("left in %s: %s", name, strings.Join(left, ", "))
		}
	}
}

// left returns the names of the objects that an uninstallation should have removed: those in the product's namespace,
// and cluster-wide ones with the product's label. It omits the objects for which mayRemain is true.
func (c *Cluster) left(ctx context.Context) ([]string, error) {
	var left []string
	for scope, where := range map[string][]string{
		"--namespaced=true":  {"--namespace", Namespace},
		"--namespaced=false": {"--selector", "app.kubernetes.io/part-of=liqo-resource-broker"},
	} {
		known, err := c.Kubectl(ctx, "api-resources", scope, "--verbs=list", "--output=name")
		if err != nil {
			return nil, err
		}
		kinds := slices.DeleteFunc(strings.Fields(known), func(kind string) bool { return strings.HasPrefix(kind, "events") })
		found, err := c.Kubectl(ctx, append(where, "get", strings.Join(kinds, ","), "--output", "name", "--ignore-not-found")...)
		if err != nil {
			return nil, err
		}
		left = append(left, strings.Fields(found)...)
	}
	slices.Sort(left)
	return slices.DeleteFunc(slices.Compact(left), mayRemain), nil
}

// mayRemain reports whether an object may remain: a CRD with its objects, the journal, and what Kubernetes or this
// test created.
func mayRemain(object string) bool {
	for _, kept := range []string{
		"customresourcedefinition.apiextensions.k8s.io/", "clusteradvertisement.broker.fluidos.eu/", "reservation.broker.fluidos.eu/",
		"configmap/liqo-resource-broker-journal-", "configmap/kube-root-ca.crt", "serviceaccount/default", "secret/" + carriedSecret,
	} {
		if strings.HasPrefix(object, kept) {
			return true
		}
	}
	return false
}
