package local

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// vault is a namespace of the victim that is not offloaded.
const vault = "vault"

// wantNothingReflected tests a hostile cluster that both lends to the victim and borrows from it. Its operator maps
// one of the victim's namespaces, first through their own Liqo, then directly with their credentials and the label
// that virtual kubelets select. The content of that namespace must not arrive where the victim's virtual kubelet
// would bring it.
func wantNothingReflected(t *testing.T, env *Environment, victim, hostile string) {
	t.Helper()
	ctx, home, away := t.Context(), env.Member(victim), env.Member(hostile)
	landing := vault + "-" + hostile
	openLanding(t, env, away, landing, victim)
	check(t, env.EnsureNamespace(ctx, home, vault))
	t.Cleanup(func() {
		for c, name := range map[*e2e.Cluster]string{home: vault, away: landing} {
			check(t, c.DeleteAndWait(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, patience))
		}
	})
	check(t, home.Create(ctx, note(vault, "secret")))

	// The hostile cluster's own map, which its Liqo replicates.
	own := namespaceMap(e2e.TenantNamespace(victim), victim)
	check(t, away.Patch(ctx, own, client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"desiredMapping":{%q:%q}}}`, vault, landing))))
	replica := namespaceMap(e2e.TenantNamespace(hostile), victim)
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		if err := home.Get(ctx, client.ObjectKeyFromObject(replica), replica); err != nil {
			return "", err
		}
		phase, _, err := unstructured.NestedString(replica.Object, "status", "currentMapping", vault, "phase")
		if phase == "Accepted" {
			return "", err
		}
		return fmt.Sprintf("the mapping of %q to be accepted, it is %q", vault, phase), err
	}))
	unlabelled(t, replica)

	thief, err := env.Identity(ctx, hostile, victim)
	check(t, err)
	const label = `{"metadata":{"labels":{"liqo.io/remote-cluster-id":%q}}}`
	check(t, thief.Patch(ctx, replica, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, label, hostile))))
	unlabelled(t, replica)
	// The victim's own map for the same peer is in the same namespace.
	refused(t, thief.Patch(ctx, namespaceMap(e2e.TenantNamespace(hostile), hostile), client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"desiredMapping":{%q:%q,%q:null}}}`, vault, landing, namespace))))
	// No label may make Liqo treat a replica as the victim's own and replicate it further.
	refused(t, thief.Patch(ctx, replica, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"liqo.io/replication":"true"}}}`))))

	// A later object in an offloaded namespace arrives; the content of the vault does not.
	check(t, home.Create(ctx, note(namespace, "honest")))
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		arrived := note(namespace+"-"+victim, "honest")
		if err := away.Get(ctx, client.ObjectKeyFromObject(arrived), arrived); err != nil {
			return fmt.Sprintf("ConfigMap %q to be reflected", arrived.Name), client.IgnoreNotFound(err)
		}
		return "", nil
	}))
	check(t, home.Delete(ctx, note(namespace, "honest")))
	var stolen corev1.ConfigMapList
	check(t, away.List(ctx, &stolen, client.InNamespace(landing)))
	for _, cm := range stolen.Items {
		if cm.Name != "kube-root-ca.crt" {
			t.Errorf("ConfigMap %q of namespace %q is in %s", cm.Name, vault, hostile)
		}
	}
	check(t, away.Patch(ctx, own, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"desiredMapping":{%q:null}}}`, vault))))
}

// openLanding creates a namespace that the victim's virtual kubelets may write to.
func openLanding(t *testing.T, env *Environment, c *e2e.Cluster, name, victim string) {
	t.Helper()
	check(t, env.EnsureNamespace(t.Context(), c, name))
	check(t, c.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "open"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "liqo-virtual-kubelet-remote"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: victim}},
	}))
}

func namespaceMap(namespace, name string) *unstructured.Unstructured {
	return e2e.Object(e2e.NamespaceMapKind, namespace, name)
}

func unlabelled(t *testing.T, replica *unstructured.Unstructured) {
	t.Helper()
	if id, has := replica.GetLabels()["liqo.io/remote-cluster-id"]; has {
		t.Errorf("the replicated NamespaceMap is labelled as one for %q", id)
	}
}
