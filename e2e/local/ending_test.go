package local

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// TestPodsLeaveAnEndingNode covers three endings. The first request is deleted while a workload with a disruption
// budget runs on its node, and the pods move to another node one after the other. When that node is deleted too, the
// pods have no other place, and the budget keeps them until the deadline, although the agent is killed while it
// evicts and deletes. A third request announces its expiry, and withdraws the announcement when it is extended.
func TestPodsLeaveAnEndingNode(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	brief := expiring(t, rome)
	first := readyForAnyPod(t, rome, "first")
	samples, err := e2e.ShippedSamples()
	check(t, err)
	check(t, rome.Deploy(ctx, namespace, samples.Deployment, map[string]string{"liqo.io/type": "virtual-node"}))
	_, err = env.Watch(ctx, rome, namespace, first.Status.TargetClusterID, first.Status.NodeName)
	check(t, err)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "my-budget"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "my-workload"}},
		},
	}
	check(t, rome.Create(ctx, budget))
	t.Cleanup(func() { check(t, client.IgnoreNotFound(rome.Delete(context.Background(), budget))) })
	second := readyForAnyPod(t, rome, "second")

	fewest := fewestPods(t, rome)
	began := time.Now()
	check(t, rome.DeleteAndWait(ctx, first, patience))
	check(t, rome.AwaitNodeGone(ctx, first.Status.NodeName, patience))
	_, err = env.Watch(ctx, rome, namespace, second.Status.TargetClusterID, second.Status.NodeName)
	check(t, err)
	t.Logf("two pods moved one after the other: %.1f s", time.Since(began).Seconds())
	if n := fewest(); n < 1 {
		t.Error("there was a time without a pod that serves, against the disruption budget")
	}

	values := env.Product.Values("rome")
	t.Cleanup(func() { check(t, env.Product.Upgrade(context.Background(), "rome", values)) })
	impatient := env.Product.Values("rome")
	impatient["ending"] = map[string]any{"drainTimeout": "10s"}
	check(t, env.Product.Upgrade(ctx, "rome", impatient))
	traces := t.TempDir()
	check(t, env.Product.Restart(ctx, "rome", failpoint.Arm(traces, failpoint.Draining...)...))

	editObject(t, rome, budget, `{"spec":{"minAvailable":2}}`)
	check(t, rome.Delete(ctx, second))
	deadline := awaitBlocked(t, rome, second, budget.Name)
	soon := max(time.Minute, time.Since(brief.Status.ReservedAt.Time).Truncate(time.Second)+10*time.Second)
	editObject(t, rome, brief, fmt.Sprintf(`{"spec":{"duration":%q}}`, soon))
	// At worst the drain waits for its deadline, the pods' grace period of 30 s, and 10 s for the report of their end.
	check(t, rome.AwaitGone(ctx, second, patience))
	if early := time.Until(deadline); early > 0 {
		t.Errorf("the pods were taken away %v before their deadline", early)
	}
	t.Logf("gone %.1f s after the deadline", time.Since(deadline).Seconds())
	if left := pending(t, traces, failpoint.Draining); len(left) > 0 {
		t.Errorf("the agent was not killed at %q", left)
	}
	check(t, rome.AwaitNodeGone(ctx, second.Status.NodeName, patience))

	node := brief.Status.NodeName // a request that is over shows none
	check(t, rome.AwaitPhase(ctx, brief, patience, agentv1alpha1.RequestReleased))
	awaitEnding(t, rome, brief, metav1.ConditionTrue, agentv1alpha1.ReasonExpired)
	check(t, rome.AwaitNodeGone(ctx, node, patience))
}

// forAnyPod lets pods of the namespace run on any of its virtual nodes, so that they can move from one to another.
func forAnyPod() *agentv1alpha1.Offloading {
	return &agentv1alpha1.Offloading{PodOffloadingStrategy: agentv1alpha1.PodOffloadingLocalAndRemote}
}

func readyForAnyPod(t *testing.T, c *e2e.Cluster, name string) *agentv1alpha1.ResourceRequest {
	t.Helper()
	r, err := c.Request(t.Context(), namespace, name, small(), func(s *agentv1alpha1.ResourceRequestSpec) { s.Offloading = forAnyPod() })
	check(t, err)
	check(t, c.AwaitReady(t.Context(), r, readyWithin))
	return r
}

// expiring returns a request that announced its expiry and was then extended. No pod fits on its node.
func expiring(t *testing.T, c *e2e.Cluster) *agentv1alpha1.ResourceRequest {
	t.Helper()
	tiny := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	r, err := c.Request(t.Context(), namespace, "brief", tiny, func(s *agentv1alpha1.ResourceRequestSpec) {
		s.Duration, s.Offloading = &metav1.Duration{Duration: 5 * time.Minute}, forAnyPod()
	})
	check(t, err)
	check(t, c.AwaitReady(t.Context(), r, readyWithin))
	awaitEnding(t, c, r, metav1.ConditionTrue, agentv1alpha1.ReasonExpiring)
	awaitEvent(t, c, r, agentv1alpha1.ReasonExpiring)
	editObject(t, c, r, `{"spec":{"duration":"3h"}}`)
	awaitEnding(t, c, r, metav1.ConditionFalse, agentv1alpha1.ReasonNoticeWithdrawn)
	return r
}

// awaitEnding waits for the condition Ending of a request.
func awaitEnding(t *testing.T, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest, status metav1.ConditionStatus, reason string) {
	t.Helper()
	awaitRequestCondition(t, c, r, agentv1alpha1.ConditionEnding, status, reason)
}

// awaitBlocked waits until a deleted request reports that a budget keeps its pods. It returns the deadline.
func awaitBlocked(t *testing.T, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest, budget string) time.Time {
	t.Helper()
	awaitRequestCondition(t, c, r, agentv1alpha1.ConditionDrained, metav1.ConditionFalse, agentv1alpha1.ReasonDrainBlocked)
	if !strings.Contains(r.Status.Message, budget) {
		t.Errorf("message %q does not name %q", r.Status.Message, budget)
	}
	inst := &agentv1alpha1.ReservationInstruction{}
	check(t, c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: r.Status.NodeName}, inst))
	return inst.Status.Drain.Deadline.Time
}

// fewestPods returns a function that ends the count and returns the lowest number of serving pods.
func fewestPods(t *testing.T, c *e2e.Cluster) func() int {
	t.Helper()
	return fewest(t, 2, func(ctx context.Context) (int, error) {
		pods, serving := &corev1.PodList{}, 0
		if err := c.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return 0, err
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil && isPodReady(p) {
				serving++
			}
		}
		return serving, nil
	})
}

func isPodReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
