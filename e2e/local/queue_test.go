package local

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestRequestWaitsForReleasedCapacity starts with all GPUs reserved. A request for one waits, shows its position and
// the reason, and is served as soon as a GPU is released. The agent learns of the release from its poll, because its
// next own attempt is a minute away. Then a request with a higher priority preempts the first: its pods are drained,
// and it waits again.
func TestRequestWaitsForReleasedCapacity(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	all := small()
	all["nvidia.com/gpu"] = resource.MustParse("2")
	holds, _ := readyRequest(t, rome, "holds-all", all)

	waits, err := rome.Request(ctx, namespace, "waits-for-one", withGPU(), func(s *agentv1alpha1.ResourceRequestSpec) { s.QueuePolicy = brokerv1alpha1.QueuePolicyQueue })
	check(t, err)
	check(t, rome.AwaitPhase(ctx, waits, readyWithin, agentv1alpha1.RequestQueued))
	place := waits.Status.Queue
	if place == nil || place.Position != 1 || place.Reason != agentv1alpha1.ReasonNoCandidate || place.Until == nil {
		t.Errorf("it waits with place %+v, want the first, for want of a candidate, until a time", place)
	}
	if !strings.Contains(waits.Status.Message, "nvidia.com/gpu") {
		t.Errorf("message %q does not say what is missing", waits.Status.Message)
	}
	awaitEvent(t, rome, waits, agentv1alpha1.ReasonQueued)

	check(t, rome.DeleteAndWait(ctx, holds, patience))
	began := time.Now()
	check(t, e2e.Await(ctx, 30*time.Second, func(ctx context.Context) (string, error) {
		if err := rome.Get(ctx, client.ObjectKeyFromObject(waits), waits); err != nil || waits.Status.Phase != agentv1alpha1.RequestQueued {
			return "", err
		}
		return fmt.Sprintf("ResourceRequest %q to be served, it says: %s", waits.Name, waits.Status.Message), nil
	}))
	t.Logf("served %.2f s after who held it was gone", time.Since(began).Seconds())
	check(t, rome.AwaitReady(ctx, waits, readyWithin))
	if waits.Status.Queue != nil || waits.Status.TargetClusterID != "berlin" {
		t.Errorf("on %s with place %+v, want berlin and none", waits.Status.TargetClusterID, waits.Status.Queue)
	}
	wantGPUs(t, rome, waits, 1)

	configure(t, env, brokerv1alpha1.BrokerConfigSpec{Preemption: &brokerv1alpha1.PreemptionConfig{
		Policy: brokerv1alpha1.PreemptLowerPriority, GracePeriod: &metav1.Duration{Duration: time.Second},
	}})
	run(t, env, rome, waits)
	left := waits.Status.NodeName
	began = time.Now()
	urgent, err := rome.Request(ctx, namespace, "takes-all", all, func(s *agentv1alpha1.ResourceRequestSpec) {
		s.QueuePolicy, s.Priority = brokerv1alpha1.QueuePolicyQueue, 10
	})
	check(t, err)
	check(t, rome.AwaitReady(ctx, urgent, patience))
	t.Logf("another one has its place %.1f s after it asked, with a notice of 1 s", time.Since(began).Seconds())
	wantGPUs(t, rome, urgent, 2)
	awaitEvent(t, rome, waits, agentv1alpha1.ReasonNotice)
	check(t, rome.AwaitPhase(ctx, waits, patience, agentv1alpha1.RequestQueued))
	for _, c := range []*e2e.Cluster{rome, env.Member("berlin")} {
		pods := &corev1.PodList{}
		check(t, c.List(ctx, pods))
		for i := range pods.Items {
			if p := &pods.Items[i]; p.Spec.NodeName == left || p.Labels["offloading.liqo.io/nodename"] == left {
				t.Errorf("pod %s in %s is on the node that went: %s", p.Name, c.Name, p.Status.Phase)
			}
		}
	}
}

func wantGPUs(t *testing.T, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest, want int64) {
	t.Helper()
	node := &corev1.Node{}
	check(t, c.Get(t.Context(), client.ObjectKey{Name: r.Status.NodeName}, node))
	if gpus := node.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != want {
		t.Errorf("virtual node %q has %v, want %d GPUs", r.Status.NodeName, node.Status.Allocatable, want)
	}
}
