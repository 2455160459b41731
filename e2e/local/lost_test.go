package local

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestLostProviderIsLeftOnceAnotherServes silences a provider's agent while the provider's cluster keeps running and
// serves two requests. Another cluster takes over the first request, which always has a node that accepts pods. The
// second request waits. The returning provider drops the first and serves the second as before.
func TestLostProviderIsLeftOnceAnotherServes(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	configure(t, env, brokerv1alpha1.BrokerConfigSpec{StaleThreshold: &metav1.Duration{Duration: time.Minute}})
	patient, err := rome.Request(ctx, namespace, "waits", small(), func(s *agentv1alpha1.ResourceRequestSpec) { s.Healing = brokerv1alpha1.HealingWait })
	check(t, err)
	check(t, rome.AwaitReady(ctx, patient, readyWithin))
	stays := run(t, env, rome, patient)
	moves, _ := readyRequest(t, rome, "moves", small())
	run(t, env, rome, moves)
	lost, oldNode := moves.Status.TargetClusterID, moves.Status.NodeName
	if patient.Status.TargetClusterID != lost {
		t.Fatalf("served by %s and %s, want one cluster for both", patient.Status.TargetClusterID, lost)
	}
	fewest := fewestNodes(t, rome, moves)

	signal(t, env, lost, syscall.SIGSTOP)
	began := time.Now()
	back := func() { signal(t, env, lost, syscall.SIGKILL) } // the supervisor restarts it
	t.Cleanup(func() {
		if back != nil {
			back()
		}
	})
	awaitReach(t, rome, patient, metav1.ConditionFalse, agentv1alpha1.ReasonProviderSilent)
	t.Logf("silent: %.1f s", time.Since(began).Seconds())
	awaitReach(t, rome, moves, metav1.ConditionTrue, agentv1alpha1.ReasonMigrated)
	t.Logf("taken over: %.1f s", time.Since(began).Seconds())
	if moves.Status.TargetClusterID == lost || moves.Status.NodeName == oldNode {
		t.Errorf("taken over by %s, node %s", moves.Status.TargetClusterID, moves.Status.NodeName)
	}
	moved, err := env.Watch(ctx, rome, namespace, moves.Status.TargetClusterID, moves.Status.NodeName)
	check(t, err)
	awaitDrained(t, rome, oldNode)
	t.Logf("drained: %.1f s", time.Since(began).Seconds())
	check(t, stays.Unchanged(ctx))
	for _, reason := range []string{agentv1alpha1.ReasonMigrating, agentv1alpha1.ReasonMigrated} {
		awaitEvent(t, rome, moves, reason)
	}

	back()
	back = nil
	awaitReach(t, rome, patient, metav1.ConditionTrue, agentv1alpha1.ReasonProviderBack)
	check(t, rome.AwaitNodeGone(ctx, oldNode, patience))
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		left, err := env.Member(lost).Leftovers(ctx)
		if err != nil || !strings.Contains(strings.Join(left, " "), oldNode) {
			return "", err
		}
		return fmt.Sprintf("nothing of %s to be left in %s: %v", oldNode, lost, left), nil
	}))
	t.Logf("clean: %.1f s", time.Since(began).Seconds())
	check(t, stays.Unchanged(ctx))
	check(t, moved.Unchanged(ctx))
	if n := fewest(); n < 1 {
		t.Error("there was a time without a node that takes pods")
	}
	check(t, rome.AwaitReady(ctx, patient, readyWithin))
}

// fewestNodes returns a function that ends the count and returns the lowest number of a request's virtual nodes that
// accept pods.
func fewestNodes(t *testing.T, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest) func() int {
	t.Helper()
	mine := client.MatchingLabels(e2e.OnReservation(r.Status.ReservationName))
	return fewest(t, 1, func(ctx context.Context) (int, error) {
		nodes, taking := &corev1.NodeList{}, 0
		if err := c.List(ctx, nodes, mine); err != nil {
			return 0, err
		}
		for i := range nodes.Items {
			if n := &nodes.Items[i]; isReady(n) && !n.Spec.Unschedulable {
				taking++
			}
		}
		return taking, nil
	})
}

// fewest calls count repeatedly. The returned function ends this and returns the lowest number, but at most the number
// in the parameter most.
func fewest(t *testing.T, most int, count func(context.Context) (int, error)) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan int, 1)
	go func() {
		least := most
		for ctx.Err() == nil {
			n, err := count(ctx)
			if err != nil {
				continue
			}
			least = min(least, n)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		result <- least
	}()
	t.Cleanup(cancel)
	return func() int {
		cancel()
		return <-result
	}
}

func isReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// awaitReach waits for the condition ProviderReachable of a request.
func awaitReach(t *testing.T, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest, status metav1.ConditionStatus, reason string) {
	t.Helper()
	awaitRequestCondition(t, c, r, agentv1alpha1.ConditionProviderReachable, status, reason)
}

// awaitRequestCondition waits until a condition of a request has a status and a reason.
func awaitRequestCondition(t *testing.T, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest, kind string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return "", err
		}
		got := meta.FindStatusCondition(r.Status.Conditions, kind)
		if got != nil && got.Status == status && got.Reason == reason {
			return "", nil
		}
		return fmt.Sprintf("%s of %s to be %s (%s): %+v", kind, r.Name, status, reason, got), nil
	}))
}

// awaitDrained waits until no pod is left on a node, which may be deleted already.
func awaitDrained(t *testing.T, c *e2e.Cluster, node string) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		for _, p := range pods.Items {
			if p.Spec.NodeName == node {
				return fmt.Sprintf("pod %s to leave %s", p.Name, node), nil
			}
		}
		return "", nil
	}))
}

func awaitEvent(t *testing.T, c *e2e.Cluster, about client.Object, reason string) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		events := &corev1.EventList{}
		if err := c.List(ctx, events, client.InNamespace(about.GetNamespace())); err != nil {
			return "", err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.UID == about.GetUID() && e.Reason == reason {
				return "", nil
			}
		}
		return fmt.Sprintf("an event %s of %s", reason, about.GetName()), nil
	}))
}
