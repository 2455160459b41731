package local

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestNodesAreCreatedForARequestThatFitsNowhere lets paris offer a group of nodes that do not exist. A request that
// no cluster has room for gets one of them. This test creates the node as a cluster autoscaler would, once a pod
// that only runs there is unschedulable.
func TestNodesAreCreatedForARequestThatFitsNowhere(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, paris := t.Context(), env.Member("rome"), env.Member("paris")
	upgradeAgent(t, env, "paris", func(values map[string]any) {
		values["hold"] = map[string]any{"mode": "Placeholder"}
		config := maps.Clone(values["config"].(map[string]any))
		config["offer"] = map[string]any{"elastic": []any{map[string]any{
			"name": "large", "nodes": 2, "each": map[string]any{"cpu": "64", "memory": "64Gi"}, "labels": map[string]any{"pool": "large"}, "readyWithin": "10m",
		}}}
		values["config"] = config
	})
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		adv, err := ownAdvertisement(ctx, paris)
		if err == nil && (adv.Spec.Elastic == nil || adv.Spec.Elastic.Resources.Cpu().Value() != 128) {
			return fmt.Sprintf("paris to offer two nodes of 64 cores: %+v", adv.Spec.Elastic), nil
		}
		return "", err
	}))

	want := small()
	want[corev1.ResourceCPU] = resource.MustParse("60")
	r, err := rome.Request(ctx, namespace, "large", want)
	check(t, err)
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		err := rome.Get(ctx, client.ObjectKeyFromObject(r), r)
		if !strings.Contains(r.Status.Message, "creates nodes") {
			return "rome to be told that nodes are created: " + r.Status.Message, err
		}
		return "", err
	}))
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		all, err := placeholders(ctx, paris)
		for i := range all {
			for _, c := range all[i].Status.Conditions {
				if c.Reason == corev1.PodReasonUnschedulable && all[i].Spec.Containers[0].Resources.Requests.Cpu().Value() == 64 {
					return "", err
				}
			}
		}
		return fmt.Sprintf("an unschedulable placeholder of 64 cores, there are %d placeholders", len(all)), err
	}))

	resources := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "large-1", Labels: map[string]string{"pool": "large", corev1.LabelHostname: "large-1", corev1.LabelOSStable: "linux"},
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Status: corev1.NodeStatus{Phase: corev1.NodeRunning, Capacity: resources, Allocatable: resources},
	}
	t.Cleanup(func() { check(t, client.IgnoreNotFound(paris.Delete(context.Background(), node))) })
	check(t, paris.Create(ctx, node))
	check(t, rome.AwaitReady(ctx, r, readyWithin))
	check(t, awaitHeld(ctx, paris, r.Status.NodeName))
	inst := &agentv1alpha1.ProviderInstruction{}
	check(t, paris.Get(ctx, client.ObjectKey{Namespace: "default", Name: r.Status.NodeName}, inst))
	if inst.Status.NewNodes != nil || !inst.Status.Enforced {
		t.Errorf("paris keeps %+v", inst.Status)
	}
	adv, err := ownAdvertisement(ctx, paris)
	check(t, err)
	if got := adv.Spec.Elastic.Resources.Cpu().Value(); got != 64 {
		t.Errorf("paris offers to create %d cores more, want 64: one of its two nodes exists", got)
	}
	run(t, env, rome, r)

	check(t, rome.DeleteDeployments(ctx, namespace))
	check(t, rome.DeleteAndWait(ctx, r, patience))
	check(t, awaitNoPlaceholders(ctx, paris))
}
