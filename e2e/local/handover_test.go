package local

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestDrainedProviderHandsItsConsumersOver uninstalls the agent of paris with a drain. At that time, paris lends to
// rome, borrows from berlin and provides for the broker's administrator. Rome moves to another provider, and
// everything else ends.
func TestDrainedProviderHandsItsConsumersOver(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, paris := t.Context(), env.Member("rome"), env.Member("paris")
	lent, _ := readyRequest(t, rome, "lent", small())
	if lent.Status.TargetClusterID != "paris" {
		t.Fatalf("on %s, want paris", lent.Status.TargetClusterID)
	}
	run(t, env, rome, lent)
	used, _ := readyRequest(t, paris, "used", withGPU())
	given := reservation("given-to-paris", "paris")
	check(t, env.Broker.Create(ctx, given))
	check(t, env.AwaitReservation(ctx, given, readyWithin, brokerv1alpha1.ReservationActive))

	release := env.Product.Release("paris")
	t.Cleanup(func() { reinstall(t, env) })
	err := release.Uninstall(ctx)
	for _, word := range []string{"not uninstalled", "ResourceRequest e2e/used: Active", "lends to rome", "uninstall.policy=Drain"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("got %v, want an error with %q", err, word)
		}
	}
	check(t, rome.AwaitReady(ctx, lent, e2e.Once))
	check(t, paris.AwaitReady(ctx, used, e2e.Once))

	drains := env.Product.Values("paris")
	drains["uninstall"] = map[string]any{"policy": "Drain", "timeout": "2m"}
	check(t, env.Product.Upgrade(ctx, "paris", drains))
	check(t, release.Uninstall(ctx))

	left, err := paris.Leftovers(ctx)
	check(t, err)
	if diff := cmp.Diff([]string(nil), append(left, leftBehind(t, paris)...)); diff != "" {
		t.Errorf("left in paris (-want +got):\n%s", diff)
	}
	consumed, provided := &agentv1alpha1.ReservationInstructionList{}, &agentv1alpha1.ProviderInstructionList{}
	check(t, paris.List(ctx, consumed))
	check(t, paris.List(ctx, provided))
	if n := len(consumed.Items) + len(provided.Items); n > 0 {
		t.Errorf("%d instructions are left", n)
	}
	check(t, rome.AwaitReady(ctx, lent, readyWithin))
	if lent.Status.TargetClusterID != "berlin" {
		t.Errorf("on %s, want berlin", lent.Status.TargetClusterID)
	}
	if err := paris.Get(ctx, client.ObjectKeyFromObject(used), used); !apierrors.IsNotFound(err) {
		t.Errorf("the request of paris: %v, want it gone", err)
	}
	check(t, env.AwaitReservation(ctx, given, readyWithin, brokerv1alpha1.ReservationReleased))
	check(t, rome.DeleteDeployments(ctx, namespace))
	check(t, rome.DeleteAndWait(ctx, lent, patience))
}
