package local

import (
	"context"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/liqo"
)

// TestLiqoProblemsAreReported makes Liqo admit pods without limits in one cluster, and report an older version in
// another. The Advertisements show both problems, and later their repair. The test restarts the agents to save the time
// until they check again.
func TestLiqoProblemsAreReported(t *testing.T) {
	env := playgroundOf(t)
	broken := map[string]struct {
		change func(*appsv1.Deployment)
		says   string
	}{
		"paris": {
			func(d *appsv1.Deployment) {
				c := &d.Spec.Template.Spec.Containers[0]
				c.Args = slices.DeleteFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--default-limits-enforcement") })
			},
			`enforces limits "None": pods of other clusters may use more than they reserved; set controllerManager.config.defaultLimitsEnforcement=Hard in Liqo's chart`,
		},
		"berlin": {
			func(d *appsv1.Deployment) { d.Labels["app.kubernetes.io/version"] = "v1.1.0" },
			"Liqo v1.1.0 is not supported; install Liqo 1.2",
		},
	}
	look := func(want metav1.ConditionStatus, says func(member string) string) {
		t.Helper()
		var group errgroup.Group
		for id := range broken {
			group.Go(func() error { return env.Product.Restart(t.Context(), id) })
		}
		check(t, group.Wait())
		for id := range broken {
			check(t, awaitOwnCondition(t.Context(), env.Member(id), patience, agentv1alpha1.ConditionLiqoReady, want, says(id)))
		}
	}

	var mends []func(context.Context)
	for id, wrong := range broken {
		mends = append(mends, editLiqo(t, env.Member(id), wrong.change))
	}
	look(metav1.ConditionFalse, func(id string) string { return broken[id].says })
	for _, mend := range mends {
		mend(t.Context())
	}
	look(metav1.ConditionTrue, func(string) string { return "Liqo " + liqo.Version + " enforces limits" })
}

// editLiqo changes Liqo's Deployment, from which agents read its settings. mend undoes the change; it is also called
// at the end of the test.
func editLiqo(t *testing.T, c *e2e.Cluster, change func(*appsv1.Deployment)) (mend func(context.Context)) {
	t.Helper()
	was := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: liqo.Namespace, Name: "liqo-controller-manager"}}
	check(t, c.Get(t.Context(), client.ObjectKeyFromObject(was), was))
	is := was.DeepCopy()
	change(is)
	patch := func(ctx context.Context, from, to *appsv1.Deployment) {
		check(t, c.Patch(ctx, to.DeepCopy(), client.MergeFrom(from)))
	}
	patch(t.Context(), was, is)
	mend = func(ctx context.Context) { patch(ctx, is, was) }
	t.Cleanup(func() { mend(context.Background()) })
	return mend
}
