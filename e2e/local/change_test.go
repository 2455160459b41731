package local

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// What is held is held for longer without anything being made anew, and is given back
// without its object being deleted: a request of an agent, and a Reservation.
func TestWhatIsHeldIsChangedInPlaceAndGivenBack(t *testing.T) {
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

	edit(t, rome, request, `{"spec":{"duration":"3h"}}`)
	check(t, rome.AwaitCondition(ctx, request, time.Minute, agentv1alpha1.ConditionChanged, nil))
	expires(t, request.Status.ReservedAt, request.Status.ExpiresAt, 3*time.Hour)
	check(t, runs.Unchanged(ctx))
	edit(t, env.Broker, byHand, `{"spec":{"duration":"5h"}}`)
	check(t, e2e.Await(ctx, time.Minute, func(ctx context.Context) (string, error) {
		err := env.Broker.Get(ctx, client.ObjectKeyFromObject(byHand), byHand)
		if err != nil || meta.IsStatusConditionTrue(byHand.Status.Conditions, brokerv1alpha1.ConditionChanged) {
			return "", err
		}
		return "the edit to be in force: " + byHand.Status.Message, nil
	}))
	expires(t, byHand.Status.ReservedAt, byHand.Status.ExpiresAt, 5*time.Hour)

	check(t, rome.DeleteDeployments(ctx, namespace))
	edit(t, rome, request, `{"spec":{"release":true}}`)
	check(t, rome.AwaitPhase(ctx, request, time.Minute, agentv1alpha1.RequestReleased))
	edit(t, env.Broker, byHand, `{"spec":{"release":true}}`)
	check(t, env.AwaitReservation(ctx, byHand, time.Minute, brokerv1alpha1.ReservationReleased))
	for object, c := range map[client.Object]*e2e.Cluster{request: rome, byHand: env.Broker} {
		err := c.Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"release":false}}`)))
		if err == nil {
			t.Errorf("the release of %s was taken back", object.GetName())
		}
	}
	check(t, env.AwaitClean(ctx, time.Minute))
	check(t, env.AwaitAvailable(ctx, before, time.Minute))
}

func edit(t *testing.T, c *e2e.Cluster, object client.Object, patch string) {
	t.Helper()
	check(t, c.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))))
}

func expires(t *testing.T, from, at *metav1.Time, after time.Duration) {
	t.Helper()
	if from == nil || at == nil || at.Sub(from.Time).Round(10*time.Second) != after {
		t.Errorf("held from %s to %s, want %s", from, at, after)
	}
}
