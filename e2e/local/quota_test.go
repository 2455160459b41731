package local

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// ownName is a namespace of rome's that has the same name in berlin.
const ownName = "own-name"

// A namespace has its own name at the provider where both administrators allow it. Who
// looks into it there sees what its pods may request, and what they do. Both go with the
// reservation.
func TestAnOffloadedNamespaceHasItsNameAndAQuota(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, berlin := t.Context(), env.Member("rome"), env.Member("berlin")
	withValue(t, env, "berlin", "guard", map[string]any{"sameNames": []any{ownName}})
	withValue(t, env, "berlin", "namespaceQuota", true)
	check(t, env.AwaitAdvertised(ctx, patience))
	check(t, env.EnsureNamespace(ctx, rome, ownName))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownName}}
	t.Cleanup(func() { check(t, rome.DeleteAndWait(context.Background(), ns, time.Minute)) })

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
	check(t, awaitQuota(ctx, berlin, "500m"))

	check(t, rome.DeleteDeployments(ctx, ownName))
	check(t, rome.DeleteAndWait(ctx, r, time.Minute))
	check(t, awaitQuota(ctx, berlin, ""))
	check(t, berlin.AwaitGone(ctx, ns.DeepCopy(), time.Minute))
}

// awaitQuota waits until there is one quota for consumers, in that namespace, of so much
// CPU and with something in use, or none.
func awaitQuota(ctx context.Context, c *e2e.Cluster, cpu string) error {
	return e2e.Await(ctx, time.Minute, func(ctx context.Context) (string, error) {
		var list corev1.ResourceQuotaList
		err := c.List(ctx, &list, client.MatchingLabels{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue})
		list.Items = slices.DeleteFunc(list.Items, func(q corev1.ResourceQuota) bool { return q.Name == liqo.ObjectQuotaName })
		if err != nil || cpu == "" && len(list.Items) == 0 {
			return "", err
		}
		if cpu != "" && len(list.Items) == 1 && list.Items[0].Name == liqo.NamespaceQuotaName && list.Items[0].Namespace == ownName {
			hard, used := list.Items[0].Status.Hard[corev1.ResourceRequestsCPU], list.Items[0].Status.Used[corev1.ResourceRequestsCPU]
			if hard.Cmp(resource.MustParse(cpu)) == 0 && !used.IsZero() && used.Cmp(hard) <= 0 {
				return "", nil
			}
		}
		return fmt.Sprintf("a quota of %q CPU, there are %+v", cpu, list.Items), nil
	})
}
