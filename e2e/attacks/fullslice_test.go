package attacks

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestDeploymentRollsOutOnFullSlice checks that a rolling update succeeds on a slice without room
// for one more pod.
func TestDeploymentRollsOutOnFullSlice(t *testing.T) {
	s := open(t)
	const name = "full"
	five, one := int32(5), intstr.FromInt32(1)
	d := &appsv1.Deployment{
		ObjectMeta: named(namespace, name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &five, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: s.attacker.honestPod(name),
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &one, MaxUnavailable: &one}},
		},
	}
	check(t, s.attacker.home.Create(t.Context(), d))
	check(t, s.awaitRolledOut(t.Context(), s.attacker, d))
	check(t, s.attacker.change(t.Context(), d, func() { d.Spec.Template.Annotations = map[string]string{"rolled-out": "twice"} }))
	check(t, s.awaitRolledOut(t.Context(), s.attacker, d))
	check(t, s.attacker.home.DeleteDeployments(t.Context(), namespace))
	s.awaitNoPods(t, s.attacker)
}

// TestRefusedPodStartsAfterItsPredecessor covers a gap between Liqo and the agent. Liqo
// stops counting a pod when its ShadowPod is deleted, and waits longer after each refusal of a pod.
// The agent counts the pod until it has ended, and then makes Liqo retry at once.
func TestRefusedPodStartsAfterItsPredecessor(t *testing.T) {
	s := open(t)
	ctx := t.Context()
	first, second := s.attacker.heavy("first"), s.attacker.heavy("second")
	check(t, s.attacker.kubelet.Create(ctx, first))
	pod := &corev1.Pod{ObjectMeta: named(s.attacker.landing, first.GetName())}
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		if err := client.IgnoreNotFound(s.provider.Get(ctx, client.ObjectKeyFromObject(pod), pod)); err != nil || pod.UID == "" {
			return "the first pod to be created", err
		}
		pod.Finalizers = []string{heldBy} // the finalizer delays the end of the pod
		return "", s.provider.Update(ctx, pod)
	}))
	release := func() {
		_ = s.provider.Patch(context.Background(), pod, merge(`{"metadata":{"finalizers":null}}`))
	}
	t.Cleanup(release)
	check(t, s.attacker.kubelet.Delete(ctx, first))
	check(t, s.attacker.kubelet.Create(ctx, second))
	s.awaitRefusals(t, second.GetName(), 10)
	release()
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		running := &corev1.Pod{ObjectMeta: named(s.attacker.landing, second.GetName())}
		if err := client.IgnoreNotFound(s.provider.Get(ctx, client.ObjectKeyFromObject(running), running)); err != nil || running.UID == "" {
			return "the second pod to be created", err
		}
		return "", nil
	}))
	check(t, s.provider.Get(ctx, client.ObjectKeyFromObject(second), second))
	if !slices.ContainsFunc(second.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "agent" && f.Subresource == "status" }) {
		t.Errorf("the agent did not wake Liqo: %+v", second.GetManagedFields())
	}
	s.removeAll(t, s.attacker)
}

// awaitRefusals waits until Liqo has made this many attempts to create the pod of a ShadowPod.
func (s *scene) awaitRefusals(t *testing.T, name string, attempts int32) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		seen, err := s.refusals(ctx, s.attacker, name)
		if err != nil || seen >= attempts {
			return "", err
		}
		return fmt.Sprintf("%d refusals of pod %q, there are %d", attempts, name, seen), nil
	}))
}

// refusals returns how often Liqo has tried in vain to create the pod of a ShadowPod.
func (s *scene) refusals(ctx context.Context, c *tenant, name string) (seen int32, err error) {
	list := &corev1.EventList{}
	if err := s.provider.List(ctx, list, client.InNamespace(c.landing)); err != nil {
		return 0, err
	}
	for i := range list.Items {
		if e := &list.Items[i]; e.InvolvedObject.Kind == "ShadowPod" && e.InvolvedObject.Name == name && e.Reason == "FailedCreatePod" {
			seen += e.Count
		}
	}
	return seen, nil
}
