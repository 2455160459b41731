package local

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/product"
)

// TestPlaceholdersHoldReservedCapacity has the provider's own pods request all capacity. They get all but the
// reserved part, and pods that the consumer starts later find that part free.
func TestPlaceholdersHoldReservedCapacity(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, paris := t.Context(), env.Member("rome"), env.Member("paris")
	upgradeAgent(t, env, "paris", func(values map[string]any) { values["hold"] = map[string]any{"mode": "Placeholder"} })

	want := small()
	want[corev1.ResourceCPU] = resource.MustParse("2")
	r, _ := readyRequest(t, rome, "kept", want)
	if r.Status.TargetClusterID != "paris" {
		t.Fatalf("on %s, want paris", r.Status.TargetClusterID)
	}
	check(t, awaitHeld(ctx, paris, r.Status.NodeName))
	wantNoOtherPods(t, paris)

	greedy := everything(namespace)
	t.Cleanup(func() { check(t, paris.DeleteDeployments(context.Background(), namespace)) })
	check(t, paris.Create(ctx, greedy))
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		running, waiting, err := podsOf(ctx, paris, namespace)
		if running > 0 && waiting > 0 && running+waiting == int(*greedy.Spec.Replicas) {
			return "", err
		}
		return fmt.Sprintf("pods of paris's own that fill it: %d run, %d find no room", running, waiting), err
	}))
	check(t, awaitHeld(ctx, paris, r.Status.NodeName))
	took, _, err := podsOf(ctx, paris, namespace)
	check(t, err)

	run(t, env, rome, r)
	if now, _, err := podsOf(ctx, paris, namespace); err != nil || now != took {
		t.Errorf("%d of paris's own pods run now, %d did before (%v)", now, took, err)
	}
	check(t, awaitHeld(ctx, paris, r.Status.NodeName))

	check(t, rome.DeleteDeployments(ctx, namespace))
	check(t, rome.DeleteAndWait(ctx, r, patience))
	check(t, awaitNoPlaceholders(ctx, paris))
}

// wantNoOtherPods checks that the agent's account cannot create useful pods. Each attempt differs from a placeholder
// in one respect.
func wantNoOtherPods(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	all, err := placeholders(t.Context(), c)
	check(t, err)
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: product.AgentUser}
	agent, err := e2e.NewCluster("paris as its agent", config, "")
	check(t, err)
	for name, change := range map[string]func(*corev1.Pod){
		"":                          func(*corev1.Pod) {},
		"no placeholder":            func(p *corev1.Pod) { p.Labels = nil },
		"another image":             func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.com/tool:1" },
		"a command":                 func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sh"} },
		"an init container":         func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.Containers },
		"the network of the node":   func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"the processes of the node": func(p *corev1.Pod) { p.Spec.HostPID = true },
	} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: product.Namespace, Name: "another", Labels: maps.Clone(all[0].Labels)},
			Spec:       *all[0].Spec.DeepCopy(),
		}
		pod.Spec.NodeName = ""
		change(pod)
		err := agent.Create(t.Context(), pod, client.DryRunAll)
		if refused := apierrors.IsForbidden(err) || apierrors.IsInvalid(err); refused != (name != "") {
			t.Errorf("a placeholder with %q: %v", name, err)
		}
	}
}

// TestOwnPodsInReservedCapacityAreReported runs without placeholders, so that the provider's own pods can take
// reserved capacity. The agent reports that to the provider's operator, with the pods that find no room, and reports
// when there is room again.
func TestOwnPodsInReservedCapacityAreReported(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	want := small()
	want[corev1.ResourceCPU] = resource.MustParse("2")
	r, _ := readyRequest(t, rome, "taken", want)
	provider := env.Member(r.Status.TargetClusterID)
	check(t, awaitCovered(ctx, provider, metav1.ConditionTrue))

	t.Cleanup(func() { check(t, provider.DeleteDeployments(context.Background(), namespace)) })
	check(t, provider.Create(ctx, everything(namespace)))
	check(t, awaitCovered(ctx, provider, metav1.ConditionFalse))
	check(t, awaitPending(ctx, provider, true))
	check(t, provider.DeleteDeployments(ctx, namespace))
	check(t, awaitCovered(ctx, provider, metav1.ConditionTrue))
	check(t, awaitPending(ctx, provider, false))
}

// awaitPending waits until a cluster reports what the pods that find no room request. If some is true, it also waits
// until there are such pods, otherwise until there are none.
func awaitPending(ctx context.Context, c *e2e.Cluster, some bool) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		adv, err := ownAdvertisement(ctx, c)
		if err != nil {
			return "", err
		}
		_, waiting, err := podsOf(ctx, c, namespace)
		got, want := adv.Spec.Pending, int64(waiting)
		if waiting > 0 == some && got.Pods().Value() == want && got.Cpu().MilliValue() == 500*want {
			return "", err
		}
		return fmt.Sprintf("%d pods of half a core to be pending in %s, it says %v", waiting, c.Name, got), err
	})
}

// awaitCovered waits until the condition ReservationsCovered of a provider, which says whether the reserved capacity is
// free, has the wanted status.
func awaitCovered(ctx context.Context, c *e2e.Cluster, want metav1.ConditionStatus) error {
	return awaitOwnCondition(ctx, c, patience, agentv1alpha1.ConditionReservationsCovered, want, "")
}

// awaitOwnCondition waits until a condition of a cluster's own Advertisement has the wanted status and a message that
// contains the given text.
func awaitOwnCondition(ctx context.Context, c *e2e.Cluster, limit time.Duration, kind string, want metav1.ConditionStatus, message string) error {
	return e2e.Await(ctx, limit, func(ctx context.Context) (string, error) {
		adv, err := ownAdvertisement(ctx, c)
		if err != nil {
			return "", err
		}
		got := meta.FindStatusCondition(adv.Status.Conditions, kind)
		if got != nil && got.Status == want && strings.Contains(got.Message, message) {
			return "", nil
		}
		return fmt.Sprintf("%s of %s to be %s with %q: %+v", kind, c.Name, want, message, got), nil
	})
}

func ownAdvertisement(ctx context.Context, c *e2e.Cluster) (*agentv1alpha1.Advertisement, error) {
	adv := &agentv1alpha1.Advertisement{}
	return adv, c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "cluster-advertisement"}, adv)
}

// everything returns a Deployment with more pods than a cluster of the playground has room for.
func everything(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "greedy"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "greedy"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(40)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "greedy", Image: "registry.k8s.io/pause:3.10.1",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}},
				}}},
			},
		},
	}
}

// podsOf counts the running pods of a namespace, and those that find no room.
func podsOf(ctx context.Context, c *e2e.Cluster, namespace string) (running, waiting int, err error) {
	list := &corev1.PodList{}
	err = c.List(ctx, list, client.InNamespace(namespace))
	for _, p := range list.Items {
		switch {
		case p.Status.Phase == corev1.PodRunning:
			running++
		case len(p.Status.Conditions) > 0 && p.Status.Conditions[0].Reason == corev1.PodReasonUnschedulable:
			waiting++
		}
	}
	return running, waiting, err
}

func placeholders(ctx context.Context, c *e2e.Cluster) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := c.List(ctx, list, client.InNamespace(product.Namespace), client.HasLabels{agentv1alpha1.PlaceholderLabel})
	return list.Items, err
}

// upgradeAgent applies the chart of a member's agent with changed values, until the test ends. change gets a copy of
// the values, whose nested maps are shared.
func upgradeAgent(t *testing.T, env *Environment, member string, change func(values map[string]any)) {
	t.Helper()
	before, values := env.Product.Values(member), env.Product.Values(member)
	change(values)
	t.Cleanup(func() { check(t, env.Product.Upgrade(context.Background(), member, before)) })
	check(t, env.Product.Upgrade(t.Context(), member, values))
}

func awaitNoPlaceholders(ctx context.Context, c *e2e.Cluster) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		left, err := placeholders(ctx, c)
		if len(left) > 0 {
			return fmt.Sprintf("no placeholder to be left, there are %d", len(left)), err
		}
		return "", err
	})
}

// awaitHeld waits until a provider reports that placeholders hold all unused capacity of a placement.
func awaitHeld(ctx context.Context, c *e2e.Cluster, placement string) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		inst := &agentv1alpha1.ProviderInstruction{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: placement}, inst); err != nil {
			return "", err
		}
		held := meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionHeld)
		all, err := placeholders(ctx, c)
		for _, p := range all {
			if p.Spec.NodeName == "" {
				return fmt.Sprintf("placeholder %q to find room, Held is %+v", p.Name, held), err
			}
		}
		if held == nil || held.Status != metav1.ConditionTrue || len(all) == 0 {
			return fmt.Sprintf("what is reserved to be held, %d placeholders, Held is %+v", len(all), held), err
		}
		return "", err
	})
}
