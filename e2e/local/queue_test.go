package local

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// All GPUs are held: a request for one waits, says which place it has and why, and is
// served as soon as they are given back. It hears of that without asking: it would ask
// again after a minute only.
func TestARequestWaitsForWhatAnotherOneGivesBack(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	all := small()
	all["nvidia.com/gpu"] = resource.MustParse("2")
	holds, _ := ready(t, rome, "holds-all", all)

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

	check(t, rome.DeleteAndWait(ctx, holds, time.Minute))
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
	node := &corev1.Node{}
	check(t, rome.Get(ctx, client.ObjectKey{Name: waits.Status.NodeName}, node))
	if gpus := node.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != 1 {
		t.Errorf("virtual node %q has %v", waits.Status.NodeName, node.Status.Allocatable)
	}
}
