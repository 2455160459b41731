package local

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// TestProviderReclaimsCapacityOfALostConsumer stops a consumer's agent while the consumer's Liqo keeps slice, pods
// and peering alive. The provider reclaims ended reservations after the timeout: first one of two, then the other one
// with the peering. The capacity can then be reserved again. The returning consumer cleans up although it no longer
// has rights at the provider.
func TestProviderReclaimsCapacityOfALostConsumer(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, berlin := t.Context(), env.Member("rome"), env.Member("berlin")
	withValue(t, env, "berlin", "reclaimTimeout", "2s")
	before, err := env.Available(ctx)
	check(t, err)
	second, _ := readyRequest(t, rome, "second", withGPU())
	withSecond, err := env.Available(ctx)
	check(t, err)
	first, _ := readyRequest(t, rome, "first", withGPU())
	run(t, env, rome, first)
	stays := run(t, env, rome, second)

	env.Product.Process("rome").Kill()
	t.Cleanup(func() {
		if !env.Product.Process("rome").Alive() {
			check(t, env.Product.Process("rome").Start())
		}
	})
	began := time.Now()
	endReservation(t, env, first)
	awaitTaken(t, berlin, first)
	check(t, env.AwaitAvailable(ctx, withSecond, patience))
	t.Logf("the first is for sale again: %.1f s", time.Since(began).Seconds())
	check(t, stays.Unchanged(ctx))

	endReservation(t, env, second)
	awaitTaken(t, berlin, second)
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		left, err := berlin.Leftovers(ctx)
		if err != nil || len(left) == 0 {
			return "", err
		}
		return fmt.Sprintf("berlin to be clean, left: %v", left), nil
	}))
	check(t, env.AwaitAvailable(ctx, before, patience))
	t.Logf("all of it: %.1f s", time.Since(began).Seconds())

	endWorkloads(t, rome)
	began = time.Now()
	check(t, env.Product.Process("rome").Start())
	check(t, env.AwaitClean(ctx, patience))
	t.Logf("the consumer is clean too: %.1f s", time.Since(began).Seconds())
	check(t, rome.DeleteDeployments(ctx, namespace))
}

// TestConsumerGivesUpALostProvider kills every process of a provider's cluster, repeatedly. A request still ends and
// leaves nothing in its own cluster. The returning provider gives up its part.
func TestConsumerGivesUpALostProvider(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	withValue(t, env, "rome", "giveUpTimeout", "1s")
	withValue(t, env, "berlin", "reclaimTimeout", "1s")
	before, err := env.Available(ctx)
	check(t, err)
	there := settledCensusOf(t, env)
	for i := range cycles(2, 10) {
		r, _ := readyRequest(t, rome, fmt.Sprintf("given-up-%d", i), withGPU())
		run(t, env, rome, r)

		revive := killCluster(t, env, "berlin")
		endWorkloads(t, rome)
		began := time.Now()
		check(t, rome.Delete(ctx, r))
		check(t, rome.AwaitGone(ctx, r, patience))
		check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
			left, err := rome.Leftovers(ctx)
			if err != nil || len(left) == 0 {
				return "", err
			}
			return fmt.Sprintf("rome to be clean, left: %v", left), nil
		}))
		t.Logf("given up: %.1f s", time.Since(began).Seconds())
		check(t, rome.DeleteDeployments(ctx, namespace))

		began = time.Now()
		revive()
		check(t, env.AwaitClean(ctx, patience))
		t.Logf("the provider is back, and clean: %.1f s", time.Since(began).Seconds())
		// Consumers that found the provider unreachable may be placed there again once they reach it.
		check(t, env.AwaitAdvertised(ctx, patience))
	}
	check(t, env.AwaitAvailable(ctx, before, patience))
	awaitCensus(t, env, there)
}

// endWorkloads deletes Deployments without waiting for their pods: a pod that was created while its node disappeared is
// removed by Kubernetes, but only a minute later.
func endWorkloads(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	check(t, c.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace(namespace), client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// killCluster kills everything that runs in a cluster until revive is called.
func killCluster(t *testing.T, env *Environment, cluster string) (revive func()) {
	t.Helper()
	plane := env.Playground.Clusters[cluster].ControlPlane
	processes := plane.Processes().Processes()
	for _, p := range slices.Backward(processes) {
		p.Kill()
	}
	revive = sync.OnceFunc(func() {
		for _, p := range processes {
			if p.Name() == toolchain.Etcd.Name {
				check(t, p.Start())
			}
		}
		check(t, plane.StartAPIServer(context.Background()))
		for _, p := range processes {
			if p.Name() != toolchain.Etcd.Name && p.Name() != toolchain.APIServer.Name {
				check(t, p.Start())
			}
		}
	})
	t.Cleanup(revive)
	return revive
}

// withValue changes a chart value of an agent until the end of the test.
func withValue(t *testing.T, env *Environment, member, name string, value any) {
	t.Helper()
	before, changed := env.Product.Values(member), env.Product.Values(member)
	changed[name] = value
	t.Cleanup(func() { check(t, env.Product.Upgrade(context.Background(), member, before)) })
	check(t, env.Product.Upgrade(t.Context(), member, changed))
}

// endReservation ends a request's reservation in the broker's cluster, like its administrator.
func endReservation(t *testing.T, env *Environment, r *agentv1alpha1.ResourceRequest) {
	t.Helper()
	list := &brokerv1alpha1.ReservationList{}
	check(t, env.Broker.List(t.Context(), list))
	for i := range list.Items {
		if list.Items[i].Status.ReservationName == r.Status.ReservationName {
			check(t, env.Broker.Delete(t.Context(), &list.Items[i]))
			return
		}
	}
	t.Fatalf("no Reservation %s", r.Status.ReservationName)
}

// awaitTaken waits until a provider has no pods and no ProviderInstruction for a request, so that nothing runs for it
// there, and nothing can be started.
func awaitTaken(t *testing.T, provider *e2e.Cluster, r *agentv1alpha1.ResourceRequest) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		pods := &corev1.PodList{}
		if err := provider.List(ctx, pods, client.MatchingLabels{"offloading.liqo.io/nodename": r.Status.NodeName}); err != nil {
			return "", err
		}
		left, err := provider.Leftovers(ctx)
		if err != nil {
			return "", err
		}
		if inst := "ProviderInstruction " + r.Status.NodeName; len(pods.Items) > 0 || strings.Contains(strings.Join(left, ", "), inst) {
			return fmt.Sprintf("%s to be taken: %d pods, left: %v", r.Status.NodeName, len(pods.Items), left), nil
		}
		return "", nil
	}))
}
