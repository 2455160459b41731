package liqo

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// digestOfRome is the suffix of the names of rome's identities: a digest of its ID.
const digestOfRome = "-a8a4c692b93b"

// bindingOf returns the RoleBinding that Liqo makes for an offloaded namespace.
func bindingOf(consumer, namespace, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: object.TenantNamespaceName(consumer), Labels: map[string]string{
			consts.K8sAppManagedByKey: consts.LiqoAppLabelValue, consts.RemoteClusterID: consumer,
		}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: consumer}},
	}
}

func TestRoleOfLiqoIsForLiveSlices(t *testing.T) {
	w := newWorld(t)
	paris := w.sites["paris"]
	for name, labels := range map[string]map[string]string{
		object.TenantNamespaceName("rome"): object.TenantNamespaceLabels("rome"),
		"by-hand":                          {consts.RemoteClusterID: "oslo", consts.TenantNamespaceLabel: "true"},
	} {
		w.check(paris.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	}
	const role = consts.RemoteNamespaceClusterRoleName
	for _, b := range []*rbacv1.RoleBinding{
		bindingOf("rome", "demo-rome", role), bindingOf("rome", "other-rome", role), bindingOf("rome", object.TenantNamespaceName("rome"), "liqo-remote-controlplane"),
		bindingOf("oslo", "demo-oslo", role),
	} {
		w.check(paris.client.Create(t.Context(), b))
	}
	w.reserve("rome", "paris", "res-b")
	w.reserve("rome", "paris", "res-a")
	subjects := func(namespace, consumer string) (names []string) {
		t.Helper()
		b := &rbacv1.RoleBinding{}
		w.exists("paris", namespace, object.TenantNamespaceName(consumer), b)
		for _, s := range b.Subjects {
			names = append(names, s.Kind+" "+s.Name)
		}
		return names
	}
	want := func(step string, want map[string][]string) {
		t.Helper()
		w.check(paris.peering.KeepBindings(t.Context()))
		got := map[string][]string{
			"demo-rome": subjects("demo-rome", "rome"), "other-rome": subjects("other-rome", "rome"),
			"liqo-tenant-rome": subjects("liqo-tenant-rome", "rome"), "demo-oslo": subjects("demo-oslo", "oslo"),
		}
		want["liqo-tenant-rome"], want["demo-oslo"] = []string{"Group rome"}, []string{"Group oslo"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, subjects (-want +got):\n%s", step, diff)
		}
	}
	a, b := "User res-a-1"+digestOfRome, "User res-b-1"+digestOfRome
	want("with two slices", map[string][]string{"demo-rome": {a, b}, "other-rome": {a, b}})
	inst := &agentv1alpha1.ProviderInstruction{}
	w.exists("paris", "default", "res-a-1", inst)
	inst.Spec.Release = true
	w.check(paris.client.Update(t.Context(), inst))
	want("while one is taken down", map[string][]string{"demo-rome": {a, b}, "other-rome": {a, b}})
	endedFor := func(span time.Duration) {
		inst.Status.ReleasingSince = new(metav1.NewTime(time.Now().Add(-span)))
		w.check(paris.client.Status().Update(t.Context(), inst))
	}
	endedFor(time.Second)
	want("just after the end", map[string][]string{"demo-rome": {a, b}, "other-rome": {a, b}})
	pod := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "left", Labels: map[string]string{object.OffloadedPodLabel: "res-a-1"}}}
	w.check(paris.client.Create(t.Context(), pod))
	endedFor(time.Minute)
	want("while its pods are drained", map[string][]string{"demo-rome": {a, b}, "other-rome": {a, b}})
	endedFor(10 * time.Minute)
	want("with a pod that the consumer never removes", map[string][]string{"demo-rome": {b}, "other-rome": {b}})
	endedFor(time.Minute)
	w.check(paris.client.Delete(t.Context(), pod))
	want("when its last pod is gone, though not its slice", map[string][]string{"demo-rome": {b}, "other-rome": {b}})
	inst.Status.Enforced = false
	w.check(paris.client.Status().Update(t.Context(), inst))
	want("when nothing of it is left", map[string][]string{"demo-rome": {b}, "other-rome": {b}})
	w.exists("paris", "default", "res-b-1", inst)
	inst.Status.Enforced = false
	w.check(paris.client.Status().Update(t.Context(), inst))
	want("without any", map[string][]string{"demo-rome": nil, "other-rome": nil})
}

func TestCertificateOfASliceGoesWithIt(t *testing.T) {
	w := newWorld(t)
	paris := w.sites["paris"]
	for name, labels := range map[string]map[string]string{
		object.TenantNamespaceName("rome"): object.TenantNamespaceLabels("rome"),
		"by-hand":                          {consts.RemoteClusterID: "oslo", consts.TenantNamespaceLabel: "true"},
		"demo":                             nil,
	} {
		w.check(paris.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	}
	w.reserve("rome", "paris", "res-a")
	awaited := types.NamespacedName{Namespace: object.TenantNamespaceName("rome"), Name: "liqo-remote-certificate-res-a-1"}
	w.check(paris.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: awaited.Namespace, Name: awaited.Name}}))
	w.check(paris.peering.ForgetSlice(t.Context(), awaited.Namespace, "res-a-1"))
	if !w.exists("paris", awaited.Namespace, awaited.Name, &corev1.Secret{}) {
		t.Error("the certificate of a slice that is awaited is gone")
	}
	for name, test := range map[string]struct {
		secret types.NamespacedName
		gone   bool
	}{
		"in the agent's tenant namespace":         {secret: types.NamespacedName{Namespace: object.TenantNamespaceName("rome"), Name: "liqo-remote-certificate-flood-1"}, gone: true},
		"of another slice":                        {secret: types.NamespacedName{Namespace: object.TenantNamespaceName("rome"), Name: "liqo-remote-certificate-flood-2"}},
		"of the control plane":                    {secret: types.NamespacedName{Namespace: object.TenantNamespaceName("rome"), Name: "liqo-remote-certificate"}},
		"in one that somebody else made":          {secret: types.NamespacedName{Namespace: "by-hand", Name: "liqo-remote-certificate-flood-1"}},
		"in a namespace of this cluster":          {secret: types.NamespacedName{Namespace: "demo", Name: "liqo-remote-certificate-flood-1"}},
		"in a namespace that is gone in any case": {secret: types.NamespacedName{Namespace: "gone", Name: "liqo-remote-certificate-flood-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w.check(paris.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: test.secret.Namespace, Name: test.secret.Name}}))
			w.check(paris.peering.ForgetSlice(t.Context(), test.secret.Namespace, "flood-1"))
			if gone := !w.exists("paris", test.secret.Namespace, test.secret.Name, &corev1.Secret{}); gone != test.gone {
				t.Errorf("gone: %t", gone)
			}
		})
	}
}
