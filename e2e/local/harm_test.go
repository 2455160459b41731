package local

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// Somebody deletes objects of a peering while pods run on it. Each is put back, and the
// pods run, or run again.
func TestWhatIsDeletedByHandIsPutBack(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, berlin := t.Context(), env.Member("rome"), env.Member("berlin")
	r, _ := ready(t, rome, "harmed", withGPU())
	run(t, env, rome, r)
	home, away, node := e2e.TenantNamespace("berlin"), e2e.TenantNamespace("rome"), r.Status.NodeName
	for _, harm := range []struct {
		in              *e2e.Cluster
		kind            schema.GroupVersionKind
		namespace, name string
		// slow ones wait for leases of virtual kubelets that nobody gave back.
		slow bool
	}{
		{in: berlin, kind: e2e.SliceKind, namespace: away, name: node},
		{in: rome, kind: e2e.IdentityKind, namespace: home, name: "controlplane-berlin"},
		{in: rome, kind: e2e.OffloadingKind, namespace: namespace, name: "offloading"},
		{in: rome, kind: e2e.SliceKind, namespace: home, name: node},
		{in: rome, kind: e2e.VirtualNodeKind, namespace: home, name: node, slow: true},
		{in: rome, kind: corev1.SchemeGroupVersion.WithKind("Namespace"), name: home, slow: true},
	} {
		if harm.slow && os.Getenv("LRB_SOAK") == "" {
			continue
		}
		began, obj := time.Now(), e2e.Object(harm.kind, harm.namespace, harm.name)
		check(t, harm.in.Get(ctx, client.ObjectKeyFromObject(obj), obj))
		check(t, harm.in.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		awaitAnother(t, harm.in, obj)
		check(t, rome.AwaitReady(ctx, r, 2*time.Minute))
		_, err := env.Watch(ctx, rome, namespace, "berlin", node)
		check(t, err)
		t.Logf("%s of %s: %.1f s", harm.kind.Kind, harm.in.Name, time.Since(began).Seconds())
	}
	check(t, rome.DeleteDeployments(ctx, namespace))
	check(t, rome.DeleteAndWait(ctx, r, time.Minute))
}

// awaitAnother waits until another object has the place of one that was deleted.
func awaitAnother(t *testing.T, c *e2e.Cluster, deleted client.Object) {
	t.Helper()
	was := deleted.GetUID()
	check(t, e2e.Await(t.Context(), 2*time.Minute, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(deleted), deleted)
		if err == nil && deleted.GetUID() != was {
			return "", nil
		}
		return fmt.Sprintf("another %s %s", deleted.GetObjectKind().GroupVersionKind().Kind, deleted.GetName()), client.IgnoreNotFound(err)
	}))
}
