package local

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
)

// setLendingPolicy writes the LendingPolicy of a cluster, like its operator, and waits until the agent applies it.
func setLendingPolicy(t *testing.T, c *e2e.Cluster, spec agentv1alpha1.LendingPolicySpec) {
	t.Helper()
	policy := &agentv1alpha1.LendingPolicy{ObjectMeta: metav1.ObjectMeta{Name: agentv1alpha1.LendingPolicyName}}
	err := c.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)
	if policy.Spec = spec; client.IgnoreNotFound(err) == nil && err != nil {
		err = c.Create(t.Context(), policy)
	} else if err == nil {
		err = c.Update(t.Context(), policy)
	}
	check(t, err)
	check(t, e2e.Await(t.Context(), readyWithin, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		if err != nil || policy.Status.ObservedGeneration == policy.Generation {
			return "", err
		}
		return fmt.Sprintf("the agent of %s to go by generation %d of the LendingPolicy", c.Name, policy.Generation), nil
	}))
}

// TestLendingPolicyExcludesPausesAndRecalls has the operator of paris exclude rome, pause lending,
// and recall running reservations.
func TestLendingPolicyExcludesPausesAndRecalls(t *testing.T) {
	env := playgroundOf(t)
	rome, paris := env.Member("rome"), env.Member("paris")
	t.Cleanup(func() {
		check(t, client.IgnoreNotFound(paris.Delete(context.Background(), &agentv1alpha1.LendingPolicy{ObjectMeta: metav1.ObjectMeta{Name: agentv1alpha1.LendingPolicyName}})))
	})
	onlyParis := func(s *agentv1alpha1.ResourceRequestSpec) {
		s.Constraints = &brokerv1alpha1.Constraints{IncludeClusters: []string{"paris"}}
	}
	refused := func(name, want string) {
		t.Helper()
		check(t, e2e.Await(t.Context(), readyWithin, func(ctx context.Context) (string, error) {
			r, err := rome.Request(ctx, namespace, name, small(), onlyParis)
			if err != nil {
				return "", err
			}
			if err := rome.AwaitPhase(ctx, r, readyWithin, agentv1alpha1.RequestFailed); err != nil {
				return "", err
			}
			if strings.Contains(r.Status.Message, "paris: "+want) {
				return "", nil
			}
			// Until the broker knows the policy, the provider refuses by itself.
			return fmt.Sprintf("the broker to refuse %s with %q, it says %q", name, want, r.Status.Message), rome.DeleteAndWait(ctx, r, readyWithin)
		}))
	}

	setLendingPolicy(t, paris, agentv1alpha1.LendingPolicySpec{Consumers: &agentv1alpha1.Consumers{Deny: []agentv1alpha1.ClusterID{"rome"}}})
	refused("denied", "does not lend to rome")
	setLendingPolicy(t, paris, agentv1alpha1.LendingPolicySpec{Paused: true})
	check(t, e2e.Await(t.Context(), readyWithin, func(ctx context.Context) (string, error) {
		adv, err := env.Advertisement(ctx, "paris")
		if err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(adv.Status.Conditions, brokerv1alpha1.ConditionReady)
		if c != nil && c.Status == metav1.ConditionFalse && c.Reason == string(lending.LendingPaused) {
			return "", nil
		}
		return fmt.Sprintf("the broker to show that paris lends nothing, it shows %+v", c), nil
	}))
	refused("paused", "lending is paused")

	setLendingPolicy(t, paris, agentv1alpha1.LendingPolicySpec{})
	check(t, env.AwaitAdvertised(t.Context(), patience)) // wait until the broker knows that paris lends again
	r, _ := readyRequest(t, rome, "called-back", small())
	if r.Status.TargetClusterID != "paris" {
		t.Fatalf("%s serves it, not paris", r.Status.TargetClusterID)
	}
	run(t, env, rome, r)
	old := r.Status.NodeName
	began := time.Now()
	setLendingPolicy(t, paris, agentv1alpha1.LendingPolicySpec{Recalls: []agentv1alpha1.Recall{{
		Consumer: "rome", Notice: &metav1.Duration{Duration: time.Minute}, Message: "maintenance of rack 4",
	}}})
	check(t, e2e.Await(t.Context(), readyWithin, func(ctx context.Context) (string, error) {
		if err := rome.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return "", err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, agentv1alpha1.ConditionRecalled)
		if c != nil && c.Reason == agentv1alpha1.ReasonMigrated && r.Status.TargetClusterID == "berlin" && r.Status.NodeName != old {
			return "", nil
		}
		return fmt.Sprintf("berlin to serve the request, %s does: %+v", r.Status.TargetClusterID, c), nil
	}))
	t.Logf("another node is Ready %s after the recall", time.Since(began).Round(10*time.Millisecond))
	_, err := rome.AwaitPods(t.Context(), namespace, 2, r.Status.NodeName, readyWithin)
	check(t, err)
	check(t, rome.AwaitNodeGone(t.Context(), old, readyWithin))
	check(t, e2e.Await(t.Context(), readyWithin, func(ctx context.Context) (string, error) {
		left, err := paris.Leftovers(ctx)
		if err != nil || len(left) == 0 {
			return "", err
		}
		return fmt.Sprintf("paris to be clean, left: %v", left), nil
	}))
}
