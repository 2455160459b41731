package local

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestDeletedPeeringObjectsAreRestored deletes objects of a peering while pods run. Each object is restored and the
// pods run again. The virtual node is deleted with its slice; the next one has the same name and waits for the leases
// of the first. The provider's instruction is not restored: deleting it withdraws the capacity, and no other cluster
// has any.
func TestDeletedPeeringObjectsAreRestored(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, berlin := t.Context(), env.Member("rome"), env.Member("berlin")
	r, _ := readyRequest(t, rome, "harmed", withGPU())
	run(t, env, rome, r)
	home, away, node := e2e.TenantNamespace("berlin"), e2e.TenantNamespace("rome"), r.Status.NodeName
	type harm struct {
		in      *e2e.Cluster
		deleted *unstructured.Unstructured
		// also is another object that is deleted with the first one, and restored.
		also *unstructured.Unstructured
	}
	harms := []harm{
		{in: berlin, deleted: e2e.Object(e2e.SliceKind, away, node), also: e2e.Object(e2e.SliceKind, away, node)},
		{in: rome, deleted: e2e.Object(e2e.IdentityKind, home, "controlplane-berlin"), also: e2e.Object(e2e.RenewKind, home, "controlplane-berlin")},
		{in: rome, deleted: e2e.Object(e2e.SliceKind, home, node), also: e2e.Object(e2e.VirtualNodeKind, home, node)}, // takes half a minute
		// An instruction is deleted once its peering is taken down.
		{in: rome, deleted: e2e.Object(consumedKind, "default", node), also: e2e.Object(e2e.VirtualNodeKind, home, node)},
	}
	for _, harm := range harms[:cycles(2, 4)] {
		began := time.Now()
		for _, obj := range []*unstructured.Unstructured{harm.deleted, harm.also} {
			check(t, harm.in.Get(ctx, client.ObjectKeyFromObject(obj), obj))
		}
		check(t, harm.in.Delete(ctx, harm.deleted, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		awaitAnother(t, harm.in, harm.deleted)
		awaitAnother(t, harm.in, harm.also)
		check(t, rome.AwaitReady(ctx, r, patience))
		_, err := env.Watch(ctx, rome, namespace, "berlin", node)
		check(t, err)
		t.Logf("%s of %s: %.1f s", harm.deleted.GetKind(), harm.in.Name, time.Since(began).Seconds())
	}
	check(t, rome.DeleteDeployments(ctx, namespace))
	check(t, berlin.Delete(ctx, e2e.Object(providedKind, "default", node)))
	check(t, rome.AwaitPhase(ctx, r, patience, agentv1alpha1.RequestFailed))
	check(t, env.AwaitClean(ctx, patience))
}

// Kinds of the instructions in a member.
var (
	consumedKind = agentv1alpha1.GroupVersion.WithKind("ReservationInstruction")
	providedKind = agentv1alpha1.GroupVersion.WithKind("ProviderInstruction")
)

// awaitAnother waits until another object has replaced a deleted one.
func awaitAnother(t *testing.T, c *e2e.Cluster, deleted client.Object) {
	t.Helper()
	was := deleted.GetUID()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(deleted), deleted)
		if err == nil && deleted.GetUID() != was {
			return "", nil
		}
		return fmt.Sprintf("another %s %s", deleted.GetObjectKind().GroupVersionKind().Kind, deleted.GetName()), client.IgnoreNotFound(err)
	}))
}
