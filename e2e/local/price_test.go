package local

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestPricesComeFromTheNodes has the agent of paris read prices from its nodes, first from labels, then from
// OpenCost. The broker uses these prices in its decisions.
func TestPricesComeFromTheNodes(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, paris := t.Context(), env.Member("rome"), env.Member("paris")
	const cpu, memory = "example.com/core-hour", "example.com/gib-hour"
	nodes := lendable(t, paris)
	restorePrices(t, env, nodes, cpu, memory)
	asksFor := func(prices map[string]any) {
		t.Helper()
		check(t, env.Product.Upgrade(ctx, "paris", configured(env.Product.Values("paris"), map[string]any{"prices": prices})))
	}

	for i := range nodes {
		label(t, paris, &nodes[i], map[string]string{cpu: []string{"0.5", "0.7"}[i%2], memory: []string{"0.06", "0.07"}[i%2]})
	}
	asksFor(map[string]any{"currency": "EUR", "nodeLabels": map[string]any{"cpuCost": cpu, "memoryCost": memory}})
	check(t, awaitPrices(ctx, env, &brokerv1alpha1.Cost{Currency: "EUR", CPUCost: "0.6", MemoryCost: "0.065"}))
	r, err := rome.Request(ctx, namespace, "cheapest-by-labels", small())
	check(t, err)
	check(t, rome.AwaitReady(ctx, r, readyWithin))
	if r.Status.TargetClusterID != "berlin" {
		t.Errorf("on %s, want berlin: paris asks for more", r.Status.TargetClusterID)
	}

	label(t, paris, &nodes[0], map[string]string{cpu: "dear"})
	check(t, awaitOwnCondition(ctx, paris, patience, agentv1alpha1.ConditionPriced, metav1.ConditionFalse, nodes[0].Name))
	check(t, awaitPrices(ctx, env, &brokerv1alpha1.Cost{Currency: "EUR", CPUCost: "0.7", MemoryCost: "0.065"}))

	openCost := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, node := range nodes {
			fmt.Fprintf(w, "node_cpu_hourly_cost{instance=%q,node=%[1]q} 0.02\nnode_ram_hourly_cost{instance=%[1]q,node=%[1]q} 0.003\n", node.Name)
		}
	}))
	t.Cleanup(openCost.Close)
	asksFor(map[string]any{"currency": "EUR", "openCost": map[string]any{"url": openCost.URL + "/metrics"}})
	check(t, awaitPrices(ctx, env, &brokerv1alpha1.Cost{Currency: "EUR", CPUCost: "0.02", MemoryCost: "0.003"}))
	r, err = rome.Request(ctx, namespace, "cheapest-by-opencost", small())
	check(t, err)
	check(t, rome.AwaitReady(ctx, r, readyWithin))
	if r.Status.TargetClusterID != "paris" {
		t.Errorf("on %s, want paris: it asks for the least", r.Status.TargetClusterID)
	}
}

// restorePrices restores the previous prices of paris at the end of the test.
func restorePrices(t *testing.T, env *Environment, nodes []corev1.Node, labels ...string) {
	t.Helper()
	values, paris := env.Product.Values("paris"), env.Member("paris")
	before, err := ownAdvertisement(t.Context(), paris)
	check(t, err)
	t.Cleanup(func() {
		ctx := context.Background() // the test's context has ended
		check(t, env.Product.Upgrade(ctx, "paris", values))
		check(t, awaitUnpriced(ctx, paris))
		for i := range nodes {
			from := nodes[i].DeepCopy()
			for _, name := range labels {
				delete(nodes[i].Labels, name)
			}
			check(t, paris.Patch(ctx, &nodes[i], client.MergeFrom(from)))
		}
		now := &agentv1alpha1.Advertisement{}
		check(t, paris.Get(ctx, client.ObjectKeyFromObject(before), now))
		from := now.DeepCopy()
		now.Spec.Cost = before.Spec.Cost
		check(t, paris.Patch(ctx, now, client.MergeFrom(from)))
		check(t, awaitPrices(ctx, env, before.Spec.Cost))
	})
}

// awaitUnpriced waits until the agent has read a configuration without prices. Until then it writes those of the
// earlier one into its Advertisement.
func awaitUnpriced(ctx context.Context, c *e2e.Cluster) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		adv, err := ownAdvertisement(ctx, c)
		if err != nil || meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionPriced) == nil {
			return "", err
		}
		return "the agent of " + c.Name + " to read its configuration without prices", nil
	})
}

func label(t *testing.T, c *e2e.Cluster, node *corev1.Node, labels map[string]string) {
	t.Helper()
	from := node.DeepCopy()
	for name, value := range labels {
		metav1.SetMetaDataLabel(&node.ObjectMeta, name, value)
	}
	check(t, c.Patch(t.Context(), node, client.MergeFrom(from)))
}

func awaitPrices(ctx context.Context, env *Environment, want *brokerv1alpha1.Cost) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		adv, err := env.Advertisement(ctx, "paris")
		if err != nil || equality.Semantic.DeepEqual(adv.Spec.Cost, want) {
			return "", err
		}
		return fmt.Sprintf("the broker to show that paris asks for %+v, it shows %+v", want, adv.Spec.Cost), nil
	})
}
