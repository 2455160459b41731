package local

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestReservationCreatedInTheBrokersCluster applies a Reservation in the broker's cluster, and its
// requester peers.
func TestReservationCreatedInTheBrokersCluster(t *testing.T) {
	env := playgroundOf(t)
	before, err := env.Available(t.Context())
	check(t, err)

	r := reservation("by-hand", "rome")
	began := time.Now()
	check(t, env.Broker.Create(t.Context(), r))
	inst, err := env.AwaitInstruction(t.Context(), "rome", patience)
	check(t, err)
	t.Logf("applied in the broker's cluster to ReservationInstruction in rome: %.0f ms", time.Since(began).Seconds()*1000)
	check(t, env.AwaitReservation(t.Context(), r, readyWithin, brokerv1alpha1.ReservationActive))
	t.Logf("to Active: %.2f s", time.Since(began).Seconds())
	if got := r.Status.TargetClusterID; inst.Spec.TargetClusterID != got {
		t.Errorf("rome was sent to %s, the Reservation says %s", inst.Spec.TargetClusterID, got)
	}

	check(t, env.Broker.DeleteAndWait(t.Context(), r, patience))
	check(t, env.AwaitClean(t.Context(), patience))
	check(t, env.AwaitAvailable(t.Context(), before, patience))
}

// TestRequestDeletedBeforeItsAnswer deletes a request that the agent has sent to a stopped broker. After
// the broker has resumed, nothing may stay reserved.
func TestRequestDeletedBeforeItsAnswer(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	before, err := env.Available(t.Context())
	check(t, err)

	resume := func() { signal(t, env, "broker", syscall.SIGCONT) }
	signal(t, env, "broker", syscall.SIGSTOP)
	defer resume()
	r, err := rome.Request(t.Context(), namespace, "in-flight", small())
	check(t, err)
	// The agent writes the attempt right before it calls the broker.
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		if err := rome.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil || r.Status.Asked {
			return "", err
		}
		return "the broker to be asked for " + r.Name, nil
	}))
	check(t, rome.Delete(t.Context(), r))
	resume()

	check(t, rome.AwaitGone(t.Context(), r, patience))
	check(t, env.AwaitHeld(t.Context(), "rome", 0, patience))
	check(t, env.AwaitAvailable(t.Context(), before, patience))
}

// TestPodsRunWhileTheBrokerIsDown stops the broker for longer than agents tolerate silence. Running workloads keep
// running and stay Ready. New requests wait and show why. Once the broker is back, it serves them.
func TestPodsRunWhileTheBrokerIsDown(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	held, _ := readyRequest(t, rome, "held-meanwhile", small())
	pods := run(t, env, rome, held)

	resume := func() { signal(t, env, "broker", syscall.SIGCONT) }
	signal(t, env, "broker", syscall.SIGSTOP)
	defer resume()
	var waits []*agentv1alpha1.ResourceRequest
	for i := range 3 {
		r, err := rome.Request(ctx, namespace, fmt.Sprintf("asked-meanwhile-%d", i), small())
		check(t, err)
		waits = append(waits, r)
	}
	for _, r := range waits {
		check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
			err := rome.Get(ctx, client.ObjectKeyFromObject(r), r)
			c := meta.FindStatusCondition(r.Status.Conditions, agentv1alpha1.ConditionReserved)
			if err != nil || c != nil && c.Reason == agentv1alpha1.ReasonBrokerUnreachable && r.Status.Phase == agentv1alpha1.RequestPending {
				return "", err
			}
			return fmt.Sprintf("%s to say that the broker is away, it is %s with %+v", r.Name, r.Status.Phase, c), nil
		}))
	}
	check(t, rome.AwaitReady(ctx, held, e2e.Once))
	check(t, pods.Unchanged(ctx))

	began := time.Now()
	resume()
	for _, r := range waits {
		check(t, rome.AwaitPhase(ctx, r, patience, agentv1alpha1.RequestReserved, agentv1alpha1.RequestActive))
	}
	t.Logf("all reserved %.1f s after the broker is back", time.Since(began).Seconds())
	check(t, env.AwaitHeld(ctx, "rome", 1+len(waits), patience))
	check(t, pods.Unchanged(ctx))
}

// signal sends a signal to the broker ("broker") or a member's agent (by cluster ID).
func signal(t *testing.T, env *Environment, name string, s syscall.Signal) {
	t.Helper()
	for _, pod := range env.Product.Pods(name) {
		check(t, syscall.Kill(pod.Process().Pid(), s))
	}
}

func reservation(name, requester string) *brokerv1alpha1.Reservation {
	return &brokerv1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: brokerv1alpha1.ReservationSpec{
			RequestedResources: brokerv1alpha1.RequestedResources(small()),
			Duration:           &metav1.Duration{Duration: 10 * time.Minute}, RequesterID: requester,
		},
	}
}
