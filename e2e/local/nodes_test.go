package local

import (
	"context"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

const modelLabel = "example.com/model"

// TestPodsRunOnTheNodesAskedFor reserves on the one node of paris that has a label. All pods must run there, although
// the scheduler prefers emptier nodes. That includes a pod that is evicted and created again.
func TestPodsRunOnTheNodesAskedFor(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, paris := t.Context(), env.Member("rome"), env.Member("paris")
	one := lendable(t, paris)[0]
	publishModels(t, env, paris, &one)

	r, err := rome.Request(ctx, namespace, "labelled", roomForFour(), onModel)
	check(t, err)
	check(t, rome.AwaitReady(ctx, r, readyWithin))
	check(t, deployFour(ctx, rome, r))
	pods, err := rome.AwaitPods(ctx, namespace, 4, r.Status.NodeName, patience)
	check(t, err)
	twins := awaitTwinsOn(t, env, pods, one.Name)

	check(t, paris.Delete(ctx, &twins[0]))
	check(t, awaitSuccessor(ctx, paris, &twins[0]))
	awaitTwinsOn(t, env, pods, one.Name)
}

// publishModels labels a node of a cluster and makes the cluster's agent publish the label, until the test ends.
func publishModels(t *testing.T, env *Environment, c *e2e.Cluster, node *corev1.Node) {
	t.Helper()
	before, values := env.Product.Values(c.Name), env.Product.Values(c.Name)
	t.Cleanup(func() {
		check(t, env.Product.Upgrade(context.Background(), c.Name, before))
		check(t, c.Patch(context.Background(), node, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, modelLabel))))
	})
	label(t, c, node, map[string]string{modelLabel: "a100"})
	cluster := map[string]any{"nodeLabels": []any{modelLabel}}
	if given, ok := values["cluster"].(map[string]any); ok {
		maps.Copy(cluster, given)
	}
	values["cluster"] = cluster
	check(t, env.Product.Upgrade(t.Context(), c.Name, values))
	check(t, awaitShape(t.Context(), c, func(s *brokerv1alpha1.NodeShape) bool { return s.NodeLabels[modelLabel] == "a100" }))
}

// awaitShape waits until a cluster advertises a node shape for which the function is returns true.
func awaitShape(ctx context.Context, c *e2e.Cluster, is func(*brokerv1alpha1.NodeShape) bool) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		adv, err := ownAdvertisement(ctx, c)
		if err != nil {
			return "", err
		}
		for i := range adv.Spec.NodeShapes {
			if is(&adv.Spec.NodeShapes[i]) {
				return "", nil
			}
		}
		return fmt.Sprintf("such a node shape, there are %+v", adv.Spec.NodeShapes), nil
	})
}

// TestPodsRunOnTaintedNodesThatTheyWereGranted taints a node of paris, and has paris offer the taint. Pods of a request
// that tolerates the taint run there without tolerations of their own. Pods of another request do not, although theirs
// tolerate the taint.
func TestPodsRunOnTaintedNodesThatTheyWereGranted(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, paris := t.Context(), env.Member("rome"), env.Member("paris")
	one, before := lendable(t, paris)[0], env.Product.Values("paris")
	publishModels(t, env, paris, &one)
	t.Cleanup(func() {
		check(t, env.Product.Upgrade(context.Background(), "paris", before))
		check(t, paris.Patch(context.Background(), &one, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":null}}`))))
	})
	check(t, paris.Patch(ctx, &one, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":[{"key":"dedicated","value":"batch","effect":"NoSchedule"}]}}`))))
	check(t, env.Product.Upgrade(ctx, "paris", configured(env.Product.Values("paris"), map[string]any{"offer": map[string]any{"taints": []any{"dedicated=batch:NoSchedule"}}})))
	check(t, awaitShape(ctx, paris, func(s *brokerv1alpha1.NodeShape) bool { return len(s.Taints) == 1 }))

	granted, err := rome.Request(ctx, namespace, "granted", roomForFour(), onModel, func(s *agentv1alpha1.ResourceRequestSpec) {
		s.Constraints.Tolerations = []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}
	})
	check(t, err)
	check(t, rome.AwaitReady(ctx, granted, readyWithin))
	check(t, deployFour(ctx, rome, granted))
	pods, err := rome.AwaitPods(ctx, namespace, 4, granted.Status.NodeName, patience)
	check(t, err)
	awaitTwinsOn(t, env, pods, one.Name)
	check(t, rome.DeleteDeployments(ctx, namespace))

	other, err := rome.Request(ctx, namespace, "other", roomForFour(), func(s *agentv1alpha1.ResourceRequestSpec) {
		s.Constraints = &brokerv1alpha1.Constraints{IncludeClusters: []string{"paris"}}
	})
	check(t, err)
	check(t, rome.AwaitReady(ctx, other, readyWithin))
	check(t, deployFour(ctx, rome, other, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"key": "dedicated", "operator": "Exists"}}, "spec", "template", "spec", "tolerations")
	}))
	pods, err = rome.AwaitPods(ctx, namespace, 4, other.Status.NodeName, patience)
	check(t, err)
	twins, err := env.Twins(ctx, "paris", pods)
	check(t, err)
	for i := range twins {
		if twins[i].Spec.NodeName == one.Name {
			t.Errorf("pod %s runs on the tainted node without a grant", twins[i].Name)
		}
	}
}

// onModel asks for the labelled node of paris, and waits while the broker does not know its label yet.
func onModel(s *agentv1alpha1.ResourceRequestSpec) {
	s.Constraints = &brokerv1alpha1.Constraints{NodeSelector: map[string]brokerv1alpha1.LabelValue{modelLabel: "a100"}}
	s.QueuePolicy = brokerv1alpha1.QueuePolicyQueue
}

// roomForFour returns amounts in which the pods of deployFour fit.
func roomForFour() corev1.ResourceList {
	list := small()
	list[corev1.ResourceCPU] = resource.MustParse("1")
	return list
}

// deployFour deploys four small pods on a request's virtual node.
func deployFour(ctx context.Context, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest, change ...func(*unstructured.Unstructured)) error {
	samples, err := e2e.ShippedSamples()
	if err != nil {
		return err
	}
	return c.Deploy(ctx, namespace, samples.Deployment, e2e.OnReservation(r.Status.ReservationName), append(change, func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, int64(4), "spec", "replicas")
	})...)
}

// awaitTwinsOn returns the copies of pods in paris, and checks that they run on a node.
func awaitTwinsOn(t *testing.T, env *Environment, pods []corev1.Pod, node string) []corev1.Pod {
	t.Helper()
	twins, err := env.Twins(t.Context(), "paris", pods)
	check(t, err)
	for i := range twins {
		if got := twins[i].Spec.NodeName; got != node {
			t.Errorf("pod %s runs on %s, want %s", twins[i].Name, got, node)
		}
	}
	return twins
}

// awaitSuccessor waits until another pod with the name of a deleted one runs.
func awaitSuccessor(ctx context.Context, c *e2e.Cluster, gone *corev1.Pod) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		pod := &corev1.Pod{}
		err := c.Get(ctx, client.ObjectKeyFromObject(gone), pod)
		if client.IgnoreNotFound(err) != nil || err == nil && pod.UID != gone.UID && pod.Status.Phase == corev1.PodRunning {
			return "", client.IgnoreNotFound(err)
		}
		return "the pod to be created again and run", nil
	})
}
