package charttest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Releases in one cluster share only the CRDs, which one of them installs.
func TestReleasesDoNotCollide(t *testing.T) {
	long := strings.Repeat("a-very-long-name-", 3)
	releases := map[string]struct {
		chart    string
		name, ns string
		values   string
	}{
		"the broker":                        {chart: "broker", name: "broker", ns: "one"},
		"another in another namespace":      {chart: "broker", name: "second", ns: "two", values: `{crds: {enabled: false}}`},
		"one that is named as the chart":    {chart: "broker", name: "liqo-resource-broker", ns: "three", values: `{crds: {enabled: false}}`},
		"one with a long name":              {chart: "broker", name: long + "1", ns: "four", values: `{crds: {enabled: false}}`},
		"one whose long name begins alike":  {chart: "broker", name: long + "2", ns: "five", values: `{crds: {enabled: false}}`},
		"an agent beside the broker":        {chart: "agent", name: "agent", ns: "one"},
		"an agent named as the first":       {chart: "agent", name: "broker", ns: "one", values: `{crds: {enabled: false}}`},
		"an agent that is named as a chart": {chart: "agent", name: "liqo-resource-broker-agent", ns: "three", values: `{crds: {enabled: false}}`},
		"one with a name of its own":        {chart: "broker", name: "broker", ns: "six", values: `{crds: {enabled: false}, fullnameOverride: mine}`},
	}
	owner := map[string]string{}
	for name, r := range releases {
		rendered := mustRender(t, chartsUnderTest[r.chart], chart.Release{Name: r.name, Namespace: r.ns}, r.values)
		for _, obj := range allObjects(rendered) {
			// Roles in Liqo's namespace also contain the name of the release.
			id := identityOf(obj)
			if other, taken := owner[id]; taken {
				t.Errorf("%s belongs to %s and to %s", id, other, name)
			}
			owner[id] = name
			if len(obj.GetName()) > 63 && obj.GetKind() != "CustomResourceDefinition" {
				t.Errorf("%s: %s has a name of %d characters", name, id, len(obj.GetName()))
			}
		}
	}
}

// Argo CD renders a chart every few minutes and compares the results, so they must be equal.
func TestRenderingIsRepeatable(t *testing.T) {
	for name, c := range chartsUnderTest {
		t.Run(name, func(t *testing.T) {
			release := chart.Release{Name: c.release, Namespace: namespace}
			first, err := render(t, c, release, ``)
			runtest.Check(t, err)
			second, err := render(t, c, release, ``)
			runtest.Check(t, err)
			if diff := cmp.Diff(first, second); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Argo CD does not compare hooks, and runs them only when it syncs another object. So a changed configuration
// must change an object that is no hook.
func TestChangedConfigurationChangesAnObjectThatIsNoHook(t *testing.T) {
	release := chart.Release{Name: "broker", Namespace: namespace}
	before := mustRender(t, chartsUnderTest["broker"], release, `{brokerConfig: {deniedClusters: [mallory]}}`)
	after := mustRender(t, chartsUnderTest["broker"], release, `{brokerConfig: {deniedClusters: [mallory, eve]}}`)
	if cmp.Equal(before.Objects, after.Objects) {
		t.Error("only hooks differ: Argo CD would never apply the configuration")
	}
}

// Some versions of Argo CD never finish a deletion with hooks outside a namespace, and none knows weights of
// hooks. So without cleanup, the uninstall Job must be the only hook of a deletion.
func TestReleasesWithoutCleanupHaveNoUninstallHookButItsJob(t *testing.T) {
	for name, c := range chartsUnderTest {
		t.Run(name, func(t *testing.T) {
			release := chart.Release{Name: c.release, Namespace: namespace}
			rendered := mustRender(t, c, release, `{uninstall: {policy: Drain, cleanup: false}}`)
			var hooks []string
			for _, obj := range rendered.Hooks {
				if strings.Contains(obj.GetAnnotations()["helm.sh/hook"], "-delete") {
					hooks = append(hooks, obj.GetKind())
				}
			}
			if diff := cmp.Diff([]string{"Job"}, hooks); diff != "" {
				t.Errorf("hooks of an uninstall (-want +got):\n%s", diff)
			}
		})
	}
}
