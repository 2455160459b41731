package local

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestEndingReservationAffectsNoOtherPeering ends reservations beside other peerings: one direction of two clusters
// that lend to each other, one request beside a peering that an administrator made with liqoctl, and a Reservation
// that expires.
func TestEndingReservationAffectsNoOtherPeering(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, paris := t.Context(), env.Member("rome"), env.Member("paris")
	expires := reservation("expires", "berlin")
	expires.Spec.Duration.Duration = time.Minute
	check(t, env.Broker.Create(ctx, expires))
	check(t, env.AwaitReservation(ctx, expires, readyWithin, brokerv1alpha1.ReservationActive))
	hand := peerByHand(t, env, "rome", "berlin")

	// Both directions begin at once, and offload namespaces of the same name.
	there, err := rome.Request(ctx, namespace, "there", small())
	check(t, err)
	back, err := paris.Request(ctx, namespace, "back", small())
	check(t, err)
	check(t, rome.AwaitReady(ctx, there, readyWithin))
	check(t, paris.AwaitReady(ctx, back, readyWithin))
	if there.Status.TargetClusterID != "paris" || back.Status.TargetClusterID != "rome" {
		t.Fatalf("on %s and %s, want paris and rome", there.Status.TargetClusterID, back.Status.TargetClusterID)
	}
	beside, _ := readyRequest(t, rome, "beside-the-peering-by-hand", withGPU())

	stays := run(t, env, paris, back)
	run(t, env, rome, there)
	run(t, env, rome, beside)
	wantNothingReflected(t, env, "rome", "paris")

	check(t, rome.DeleteDeployments(ctx, namespace))
	check(t, rome.Delete(ctx, there))
	check(t, rome.Delete(ctx, beside))
	check(t, rome.AwaitGone(ctx, there, patience))
	check(t, rome.AwaitGone(ctx, beside, patience))
	check(t, env.AwaitHeld(ctx, "rome", 0, patience))
	check(t, env.AwaitReservation(ctx, expires, patience, brokerv1alpha1.ReservationReleased))
	check(t, env.Member("berlin").AwaitNodeGone(ctx, expires.Status.ReservationName+"-1", patience))

	check(t, paris.AwaitReady(ctx, back, e2e.Once))
	check(t, stays.Unchanged(ctx))
	hand.unchanged(t)
}

// handmade is a peering that does not involve the product.
type handmade struct {
	*e2e.Workload
	env      *Environment
	consumer *e2e.Cluster
	// provider is the provider's ID and the name of its virtual node.
	provider string
	objects  map[string]string
}

// byHandNamespace is the namespace that a test offloads by hand, over a peering that liqoctl made.
const byHandNamespace = "by-hand"

// peerByHand peers two clusters with liqoctl and runs pods on the virtual node. The peering is removed after the
// test.
func peerByHand(t *testing.T, env *Environment, consumer, provider string) handmade {
	t.Helper()
	ctx, c := t.Context(), env.Member(consumer)
	t.Cleanup(func() { unpeerByHand(t, env, consumer, provider) })
	check(t, env.Peer(ctx, consumer, provider, "--cpu=1", "--memory=1Gi", "--pods=10"))
	check(t, env.EnsureNamespace(ctx, c, byHandNamespace))
	offloading := e2e.Object(e2e.OffloadingKind, byHandNamespace, "offloading")
	offloading.Object["spec"] = map[string]any{
		"namespaceMappingStrategy": "DefaultName", "podOffloadingStrategy": "LocalAndRemote",
		"clusterSelector": map[string]any{"nodeSelectorTerms": []any{}},
	}
	check(t, c.Create(ctx, offloading))
	check(t, c.AwaitScheduling(ctx, byHandNamespace, patience))
	samples, err := e2e.ShippedSamples()
	check(t, err)
	check(t, c.Deploy(ctx, byHandNamespace, samples.Deployment, map[string]string{corev1.LabelHostname: provider}, e2e.Named("by-hand")))
	h := handmade{env: env, consumer: c, provider: provider}
	h.Workload, err = env.Watch(ctx, c, byHandNamespace, provider, provider)
	check(t, err)
	h.objects = h.peering(t)
	return h
}

// peering returns the objects of the peering with their UIDs.
func (h handmade) peering(t *testing.T) map[string]string {
	t.Helper()
	consumer, provider := h.consumer, h.env.Member(h.provider)
	home, away := e2e.TenantNamespace(h.provider), e2e.TenantNamespace(consumer.Name)
	uids := map[string]string{}
	for _, o := range []struct {
		in  *e2e.Cluster
		obj *unstructured.Unstructured
	}{
		{provider, e2e.Object(e2e.TenantKind, away, consumer.Name)},
		{provider, e2e.Object(e2e.SliceKind, away, h.provider)},
		{consumer, e2e.Object(e2e.IdentityKind, home, "controlplane-"+h.provider)},
		{consumer, e2e.Object(e2e.SliceKind, home, h.provider)},
		{consumer, e2e.Object(e2e.VirtualNodeKind, home, h.provider)},
		{consumer, e2e.Object(corev1.SchemeGroupVersion.WithKind("Node"), "", h.provider)},
	} {
		check(t, o.in.Get(t.Context(), client.ObjectKeyFromObject(o.obj), o.obj))
		uids[o.in.Name+" "+o.obj.GetKind()] = string(o.obj.GetUID())
	}
	return uids
}

func (h handmade) unchanged(t *testing.T) {
	t.Helper()
	check(t, h.Workload.Unchanged(t.Context()))
	if diff := cmp.Diff(h.objects, h.peering(t)); diff != "" {
		t.Errorf("the peering by hand (-before +after):\n%s", diff)
	}
}

func unpeerByHand(t *testing.T, env *Environment, consumer, provider string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // the test's context has ended
	defer cancel()
	c := env.Member(consumer)
	check(t, env.ReleaseAll(ctx, patience, namespace, byHandNamespace))
	check(t, c.DeleteAndWait(ctx, e2e.Object(e2e.OffloadingKind, byHandNamespace, "offloading"), patience))
	check(t, env.Unpeer(ctx, consumer, provider))
	check(t, c.DeleteAndWait(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: byHandNamespace}}, patience))
}
