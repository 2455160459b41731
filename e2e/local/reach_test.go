package local

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// TestUnreachableProviderIsLeftAndExcluded has a provider advertise an address without a server. A consumer that is
// placed there finds out, and its next request goes elsewhere.
func TestUnreachableProviderIsLeftAndExcluded(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	const (
		nowhere    = "https://127.0.0.1:1"
		readyLimit = 2 * time.Minute // the broker's default
	)
	cluster := maps.Clone(env.Product.Values("berlin")["cluster"].(map[string]any))
	cluster["endpointURL"] = nowhere
	withValue(t, env, "berlin", "cluster", cluster)
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		adv, err := env.Advertisement(ctx, "berlin")
		if err != nil || adv.Spec.EndpointURL == nowhere {
			return "", err
		}
		return "berlin to advertise another address", nil
	}))

	began := time.Now()
	first, err := rome.Request(ctx, namespace, "tries", withGPU())
	check(t, err)
	awaitFailed(t, rome, first)
	took := time.Since(began)
	t.Logf("left: %.1f s", took.Seconds())
	if took >= readyLimit {
		t.Errorf("left after %s, when the broker gives up any node that is not Ready", took)
	}

	second, err := rome.Request(ctx, namespace, "knows", withGPU())
	check(t, err)
	awaitFailed(t, rome, second)
	told := second.Status.Message
	for _, c := range second.Status.Candidates {
		if c.ClusterID == "berlin" && (c.Reason != string(decision.Unreachable) || !strings.Contains(c.Message, "rome cannot reach "+nowhere)) {
			t.Errorf("berlin is left out for %s: %s", c.Reason, c.Message)
		}
	}
	if second.Status.ReservationName != "" || !strings.Contains(told, "rome cannot reach "+nowhere) {
		t.Errorf("reserved %q; the request says %q", second.Status.ReservationName, told)
	}
}

// TestHangingProviderIsReportedToConsumers suspends and continues the API server of a provider. The broker informs
// consumers both times, and their pods keep running.
func TestHangingProviderIsReportedToConsumers(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	r, _ := readyRequest(t, rome, "served", withGPU())
	stays := run(t, env, rome, r)
	awaitHealth(t, rome, r, agentv1alpha1.ReasonHealthy)

	hang := func(s syscall.Signal) {
		for _, p := range env.Playground.Clusters["berlin"].ControlPlane.Processes().Processes() {
			if p.Name() == toolchain.APIServer.Name {
				check(t, syscall.Kill(p.Pid(), s))
			}
		}
	}
	began := time.Now()
	hang(syscall.SIGSTOP)
	t.Cleanup(func() { hang(syscall.SIGCONT) })
	awaitHealth(t, rome, r, agentv1alpha1.ReasonProviderUnreachable)
	t.Logf("told: %.1f s", time.Since(began).Seconds())
	awaitEvent(t, rome, r, agentv1alpha1.ReasonProviderUnreachable)

	began = time.Now()
	hang(syscall.SIGCONT)
	awaitHealth(t, rome, r, agentv1alpha1.ReasonHealthy)
	t.Logf("told that it is back: %.1f s", time.Since(began).Seconds())
	check(t, stays.Unchanged(t.Context()))
}

func awaitFailed(t *testing.T, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil || r.Status.Phase == agentv1alpha1.RequestFailed {
			return "", err
		}
		return fmt.Sprintf("%s to have failed, it is %s: %s", r.Name, r.Status.Phase, r.Status.Message), nil
	}))
}

func awaitHealth(t *testing.T, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest, reason string) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return "", err
		}
		got := meta.FindStatusCondition(r.Status.Conditions, agentv1alpha1.ConditionHealthy)
		if got != nil && got.Reason == reason && (got.Status == metav1.ConditionTrue) == (reason == agentv1alpha1.ReasonHealthy) {
			return "", nil
		}
		return fmt.Sprintf("Healthy of %s to be %s: %+v", r.Name, reason, got), nil
	}))
}
