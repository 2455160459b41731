package local

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// ownName is a namespace of rome that has the same name in berlin.
const ownName = "own-name"

// TestOffloadedNamespaceKeepsItsName checks that a namespace keeps its name at the provider if both administrators
// allow it, and that it is deleted with the reservation.
func TestOffloadedNamespaceKeepsItsName(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, berlin := t.Context(), env.Member("rome"), env.Member("berlin")
	withValue(t, env, "berlin", "guard", map[string]any{"sameNames": []any{ownName}})
	check(t, env.AwaitAdvertised(ctx, patience))
	check(t, env.EnsureNamespace(ctx, rome, ownName))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownName}}
	t.Cleanup(func() { check(t, rome.DeleteAndWait(context.Background(), ns, patience)) })

	r, err := rome.Request(ctx, ownName, "bounded", withGPU(), func(spec *agentv1alpha1.ResourceRequestSpec) {
		spec.Offloading = &agentv1alpha1.Offloading{NamespaceMappingStrategy: agentv1alpha1.NamespaceMappingEnforceSameName}
	})
	check(t, err)
	check(t, e2e.Await(ctx, readyWithin, func(ctx context.Context) (string, error) {
		err := rome.Get(ctx, client.ObjectKeyFromObject(r), r)
		c := meta.FindStatusCondition(r.Status.Conditions, agentv1alpha1.ConditionOffloading)
		if err != nil || c != nil && c.Reason == agentv1alpha1.ReasonSameNameNotAllowed {
			return "", err
		}
		return fmt.Sprintf("the request to lack a label of its namespace, it says %+v", c), nil
	}))
	check(t, rome.Patch(ctx, ns, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, agentv1alpha1.SameNameLabel))))
	check(t, rome.AwaitReady(ctx, r, readyWithin))
	run(t, env, rome, r)

	check(t, rome.DeleteDeployments(ctx, ownName))
	check(t, rome.DeleteAndWait(ctx, r, patience))
	check(t, berlin.AwaitGone(ctx, ns.DeepCopy(), patience))
}
