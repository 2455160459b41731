package local

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestReservationIsExtendedInPlaceAndReleased extends an agent's request and a Reservation in place, and releases
// them without deleting the objects.
func TestReservationIsExtendedInPlaceAndReleased(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	before, err := env.Available(ctx)
	check(t, err)
	request, err := rome.Request(ctx, namespace, "kept", small())
	check(t, err)
	check(t, rome.AwaitReady(ctx, request, readyWithin))
	runs := run(t, env, rome, request)
	byHand := reservation("kept", "rome")
	check(t, env.Broker.Create(ctx, byHand))
	check(t, env.AwaitReservation(ctx, byHand, readyWithin, brokerv1alpha1.ReservationActive))

	editObject(t, rome, request, `{"spec":{"duration":"3h"}}`)
	awaitChanged(t, rome, request, metav1.ConditionTrue)
	expires(t, request.Status.ReservedAt, request.Status.ExpiresAt, 3*time.Hour)
	check(t, runs.Unchanged(ctx))
	editObject(t, env.Broker, byHand, `{"spec":{"duration":"5h"}}`)
	awaitChanged(t, env.Broker, byHand, metav1.ConditionTrue)
	expires(t, byHand.Status.ReservedAt, byHand.Status.ExpiresAt, 5*time.Hour)

	for _, cpu := range []string{"1500m", "600m"} {
		editObject(t, rome, request, `{"spec":{"cpu":"`+cpu+`"}}`)
		awaitChanged(t, rome, request, metav1.ConditionTrue)
		awaitCPUs(t, env, rome, request, cpu)
		check(t, runs.Unchanged(ctx))
		editObject(t, env.Broker, byHand, `{"spec":{"requestedResources":{"cpu":"`+cpu+`"}}}`)
		awaitChanged(t, env.Broker, byHand, metav1.ConditionTrue)
	}
	editObject(t, rome, request, `{"spec":{"cpu":"900"}}`)
	awaitChanged(t, rome, request, metav1.ConditionFalse)
	awaitCPUs(t, env, rome, request, "600m")

	check(t, rome.DeleteDeployments(ctx, namespace))
	editObject(t, rome, request, `{"spec":{"release":true}}`)
	check(t, rome.AwaitPhase(ctx, request, patience, agentv1alpha1.RequestReleased))
	editObject(t, env.Broker, byHand, `{"spec":{"release":true}}`)
	check(t, env.AwaitReservation(ctx, byHand, patience, brokerv1alpha1.ReservationReleased))
	for object, c := range map[client.Object]*e2e.Cluster{request: rome, byHand: env.Broker} {
		err := c.Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"release":false}}`)))
		if err == nil {
			t.Errorf("the release of %s was taken back", object.GetName())
		}
	}
	check(t, env.AwaitClean(ctx, patience))
	check(t, env.AwaitAvailable(ctx, before, patience))
}

// awaitChanged waits until the last edit of a request or Reservation is answered: until its condition Changed is of the
// last generation, and has the wanted status.
func awaitChanged(t *testing.T, c *e2e.Cluster, object client.Object, want metav1.ConditionStatus) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", err
		}
		var conditions []metav1.Condition
		switch o := object.(type) {
		case *agentv1alpha1.ResourceRequest:
			conditions = o.Status.Conditions
		case *brokerv1alpha1.Reservation:
			conditions = o.Status.Conditions
		}
		changed := meta.FindStatusCondition(conditions, agentv1alpha1.ConditionChanged)
		if changed != nil && changed.ObservedGeneration == object.GetGeneration() && changed.Status == want {
			return "", nil
		}
		return fmt.Sprintf("the edit of %s to be answered with %s: %+v", object.GetName(), want, changed), nil
	}))
}

// awaitCPUs waits until the virtual node of a request and the provider's quota have the given number of CPUs.
func awaitCPUs(t *testing.T, env *Environment, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest, cpu string) {
	t.Helper()
	want := resource.MustParse(cpu)
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		var node corev1.Node
		if err := c.Get(ctx, client.ObjectKey{Name: r.Status.NodeName}, &node); err != nil {
			return "", err
		}
		quotas := &unstructured.UnstructuredList{}
		quotas.SetAPIVersion("offloading.liqo.io/v1beta1")
		quotas.SetKind("QuotaList")
		if err := env.Member(r.Status.TargetClusterID).List(ctx, quotas); err != nil {
			return "", err
		}
		limit := ""
		for i := range quotas.Items {
			if strings.HasPrefix(quotas.Items[i].GetName(), r.Status.NodeName+"-") {
				limit, _, _ = unstructured.NestedString(quotas.Items[i].Object, "spec", "resources", "cpu")
			}
		}
		got, _ := resource.ParseQuantity(limit)
		if node.Status.Allocatable.Cpu().Cmp(want) == 0 && got.Cmp(want) == 0 {
			return "", nil
		}
		return fmt.Sprintf("node %s to have %s CPUs: it has %s, its quota is %q", node.Name, cpu, node.Status.Allocatable.Cpu(), limit), nil
	}))
}

// editObject changes an object. It retries, because the API server refuses while it cannot call the webhook of a
// restarting agent.
func editObject(t *testing.T, c *e2e.Cluster, object client.Object, patch string) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
		if apierrors.IsInternalError(err) {
			return fmt.Sprintf("an agent to be asked about %q: %v", object.GetName(), err), nil
		}
		check(t, err)
		return "", nil
	}))
}

func expires(t *testing.T, from, at *metav1.Time, after time.Duration) {
	t.Helper()
	if from == nil || at == nil || at.Sub(from.Time).Round(10*time.Second) != after {
		t.Errorf("held from %s to %s, want %s", from, at, after)
	}
}
