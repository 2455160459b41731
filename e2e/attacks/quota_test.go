package attacks

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
)

func nameOf(prefix string, i int) string { return fmt.Sprintf("%s-%d", prefix, i) }

// heavy returns a pod that uses nearly the whole grant, with an unused name.
func (c *tenant) heavy(prefix string) *unstructured.Unstructured {
	return c.podWith(unused(prefix), requests("450m", "200Mi"))
}

// TestRepeatedDeletionsFreeNoCapacity checks a flaw of Liqo's webhook: each DELETE request
// subtracts a ShadowPod from the quota. Pods that are admitted as a result must not exceed the
// grant.
func TestRepeatedDeletionsFreeNoCapacity(t *testing.T) {
	ways := map[string]func(ctx context.Context, c *tenant, shadow *unstructured.Unstructured){
		"forty parallel deletions": func(ctx context.Context, c *tenant, shadow *unstructured.Unstructured) {
			together(40, func(int) { _ = c.kubelet.Delete(ctx, shadow.DeepCopy()) })
		},
		"forty deletions with a grace period": func(ctx context.Context, c *tenant, shadow *unstructured.Unstructured) {
			together(40, func(int) { _ = c.kubelet.Delete(ctx, shadow.DeepCopy(), client.GracePeriodSeconds(600)) })
		},
		"thirty deletions in the foreground": func(ctx context.Context, c *tenant, shadow *unstructured.Unstructured) {
			for range 30 {
				_ = c.kubelet.Delete(ctx, shadow.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground))
			}
		},
		"thirty deletions of a ShadowPod with a finalizer": func(ctx context.Context, c *tenant, shadow *unstructured.Unstructured) {
			held := shadow.DeepCopy()
			held.SetFinalizers([]string{heldBy})
			_ = c.kubelet.Update(ctx, held)
			for range 30 {
				_ = c.kubelet.Delete(ctx, shadow.DeepCopy())
			}
		},
		"deletions of another UID": func(ctx context.Context, c *tenant, shadow *unstructured.Unstructured) {
			wrong := shadow.GetUID() + "x"
			together(20, func(int) { _ = c.kubelet.Delete(ctx, shadow.DeepCopy(), client.Preconditions{UID: &wrong}) })
		},
		"dry runs of deletions": func(ctx context.Context, c *tenant, shadow *unstructured.Unstructured) {
			together(20, func(int) { _ = c.kubelet.Delete(ctx, shadow.DeepCopy(), client.DryRunAll) })
		},
	}
	s := openToSpoil(t)
	for name, free := range ways {
		t.Run(name, func(t *testing.T) {
			deleted := 0
			for range 3 {
				shadow := s.attacker.heavy("freed")
				if err := s.attacker.kubelet.Create(t.Context(), shadow); err == nil {
					free(t.Context(), s.attacker, shadow)
					deleted++
				}
				for range 4 {
					_ = s.attacker.kubelet.Create(t.Context(), s.attacker.heavy("beyond"))
				}
			}
			s.settleExcess(t, s.attacker)
			if deleted == 0 {
				t.Error("no pod was taken that could be deleted: this attacks nothing")
			}
		})
	}
}

// settleExcess waits until the provider has decided about the admitted pods, fails the test if it
// did not contain them, and removes them.
func (s *scene) settleExcess(t *testing.T, c *tenant) {
	t.Helper()
	s.awaitTurn(t)
	s.observer.verify(t)
	s.removeAll(t, c)
}

// awaitTurn has the neighbour create a ShadowPod and waits until its pod is scheduled or refused.
// Liqo, the guards and the scheduler have then dealt with everything that was created before.
func (s *scene) awaitTurn(t *testing.T) {
	t.Helper()
	c, shadow := s.neighbour, s.neighbour.pod(unused("turn"))
	check(t, c.kubelet.Create(t.Context(), shadow))
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		pod := &corev1.Pod{}
		err := s.provider.Get(ctx, client.ObjectKeyFromObject(shadow), pod)
		if client.IgnoreNotFound(err) != nil || pod.Spec.NodeName != "" {
			return "", err
		}
		if n, err := s.refusals(ctx, c, shadow.GetName()); err != nil || n > 0 {
			return "", err
		}
		return "the pod of " + shadow.GetName() + " to be scheduled or refused", nil
	}))
	check(t, c.kubelet.Delete(t.Context(), shadow, client.PropagationPolicy("Background")))
}

// together runs n calls of f in parallel and waits for them.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// TestParallelCreationsStayWithinTheGrant checks that the provider counts parallel requests one
// after another.
func TestParallelCreationsStayWithinTheGrant(t *testing.T) {
	s := openToSpoil(t)
	t.Run("forty pods of nearly the whole grant", func(t *testing.T) {
		var taken atomic.Int64
		together(40, func(int) {
			if s.attacker.kubelet.Create(t.Context(), s.attacker.heavy("race")) == nil {
				taken.Add(1)
			}
		})
		if taken.Load() == 0 {
			t.Error("none of the pods was taken, and one fits")
		}
		s.settleExcess(t, s.attacker)
	})
	t.Run("the same name, created and deleted over and over", func(t *testing.T) {
		same := s.attacker.heavy("same")
		together(8, func(int) {
			for range 10 {
				_ = s.attacker.kubelet.Create(t.Context(), same.DeepCopy())
				_ = s.attacker.kubelet.Delete(t.Context(), same.DeepCopy())
			}
		})
		s.settleExcess(t, s.attacker)
	})
	t.Run("two namespaces", func(t *testing.T) {
		second := s.secondLanding(t)
		together(20, func(i int) {
			landing := s.attacker.landing
			if i%2 == 0 {
				landing = second
			}
			shadow := e2etest.ShadowPod("rome", s.attacker.slice, landing, unused("spread"))
			requests("450m", "200Mi")(podOf(shadow))
			_ = s.attacker.kubelet.Create(t.Context(), shadow)
		})
		s.settleExcess(t, s.attacker)
	})
}

// secondLanding offloads a second namespace of rome by hand, waits until rome's virtual kubelet may
// write to it, and returns its name at the provider.
func (s *scene) secondLanding(t *testing.T) string {
	t.Helper()
	const name = "e2e-second"
	check(t, s.env.EnsureNamespace(t.Context(), s.attacker.home, name))
	offloading := e2e.Object(e2e.OffloadingKind, name, "offloading")
	offloading.Object["spec"] = map[string]any{"namespaceMappingStrategy": "DefaultName", "podOffloadingStrategy": "LocalAndRemote",
		"clusterSelector": map[string]any{"nodeSelectorTerms": []any{}}}
	check(t, s.attacker.home.Create(t.Context(), offloading))
	t.Cleanup(func() {
		ctx := context.Background()
		check(t, s.attacker.home.DeleteAndWait(ctx, offloading, patience))
		check(t, s.attacker.home.DeleteAndWait(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, patience))
	})
	landing := name + "-rome"
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		return "", s.attacker.kubelet.Create(ctx, e2etest.ShadowPod("rome", s.attacker.slice, landing, unused("probe")), client.DryRunAll)
	}))
	t.Cleanup(func() { s.removeIn(t, landing) })
	return landing
}
