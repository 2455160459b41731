package local

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestPodsSpreadOverProvidersOfTheirNamespace creates two requests in one namespace, which offload all its pods to
// different providers. A third request conflicts with them, because it would keep some pods local.
func TestPodsSpreadOverProvidersOfTheirNamespace(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	away := func(spec *agentv1alpha1.ResourceRequestSpec) {
		spec.Offloading = &agentv1alpha1.Offloading{PodOffloadingStrategy: agentv1alpha1.PodOffloadingRemote}
	}
	west, err := rome.Request(ctx, namespace, "west", small(), away)
	check(t, err)
	central, err := rome.Request(ctx, namespace, "central", withGPU(), away)
	check(t, err)
	check(t, rome.AwaitReady(ctx, west, readyWithin))
	check(t, rome.AwaitReady(ctx, central, readyWithin))
	if west.Status.TargetClusterID != "paris" || central.Status.TargetClusterID != "berlin" {
		t.Fatalf("on %s and %s, want paris and berlin", west.Status.TargetClusterID, central.Status.TargetClusterID)
	}

	other, err := rome.Request(ctx, namespace, "other", small())
	check(t, err)
	check(t, e2e.Await(ctx, readyWithin, func(ctx context.Context) (string, error) {
		err := rome.Get(ctx, client.ObjectKeyFromObject(other), other)
		c := meta.FindStatusCondition(other.Status.Conditions, agentv1alpha1.ConditionOffloading)
		if c != nil && c.Reason == agentv1alpha1.ReasonOffloadingConflict && strings.Contains(c.Message, namespace+"/") {
			return "", err
		}
		return fmt.Sprintf("a conflict that names the other requests, the condition is %+v", c), err
	}))
	check(t, rome.DeleteAndWait(ctx, other, patience))

	// The pods are not pinned, and were created after the requests were Ready.
	samples, err := e2e.ShippedSamples()
	check(t, err)
	check(t, rome.Deploy(ctx, namespace, samples.Deployment, nil, e2e.Named("spread"), spreadOver(corev1.LabelTopologyRegion, 4)))
	regions := map[string]int{}
	for _, r := range []*agentv1alpha1.ResourceRequest{west, central} {
		pods, err := rome.AwaitPods(ctx, namespace, 2, r.Status.NodeName, patience)
		check(t, err)
		node := &corev1.Node{}
		check(t, rome.Get(ctx, client.ObjectKey{Name: r.Status.NodeName}, node))
		regions[node.Labels[corev1.LabelTopologyRegion]] += len(pods)
	}
	if diff := cmp.Diff(map[string]int{"eu-west": 2, "eu-central": 2}, regions); diff != "" {
		t.Errorf("pods by region (-want +got):\n%s", diff)
	}
}

// spreadOver spreads the pods of a Deployment evenly.
func spreadOver(label string, replicas int64) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, replicas, "spec", "replicas")
		_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{
			"maxSkew": int64(1), "topologyKey": label, "whenUnsatisfiable": "DoNotSchedule",
			"labelSelector": map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": u.GetName()}},
		}}, "spec", "template", "spec", "topologySpreadConstraints")
	}
}
