package local

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// Who looks into an offloaded namespace of the provider sees what its pods may request
// there, and what they do. It goes with the reservation.
func TestAnOffloadedNamespaceHasAQuota(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, berlin := t.Context(), env.Member("rome"), env.Member("berlin")
	withValue(t, env, "berlin", "namespaceQuota", true)
	check(t, env.AwaitAdvertised(ctx, patience))
	r, _ := ready(t, rome, "bounded", withGPU())
	run(t, env, rome, r)
	check(t, awaitQuota(ctx, berlin, "500m"))

	check(t, rome.DeleteDeployments(ctx, namespace))
	check(t, rome.DeleteAndWait(ctx, r, time.Minute))
	check(t, awaitQuota(ctx, berlin, ""))
}

// awaitQuota waits until there is one quota for consumers, of so much CPU and with
// something in use, or none.
func awaitQuota(ctx context.Context, c *e2e.Cluster, cpu string) error {
	return e2e.Await(ctx, time.Minute, func(ctx context.Context) (string, error) {
		var list corev1.ResourceQuotaList
		err := c.List(ctx, &list, client.MatchingLabels{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue})
		if err != nil || cpu == "" && len(list.Items) == 0 {
			return "", err
		}
		if cpu != "" && len(list.Items) == 1 && list.Items[0].Name == liqo.NamespaceQuotaName {
			hard, used := list.Items[0].Status.Hard[corev1.ResourceRequestsCPU], list.Items[0].Status.Used[corev1.ResourceRequestsCPU]
			if hard.Cmp(resource.MustParse(cpu)) == 0 && !used.IsZero() && used.Cmp(hard) <= 0 {
				return "", nil
			}
		}
		return fmt.Sprintf("a quota of %q CPU, there are %+v", cpu, list.Items), nil
	})
}
