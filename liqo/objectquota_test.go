package liqo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

func TestObjectQuotasBoundEveryNamespaceThatAGuardedPeerWritesTo(t *testing.T) {
	w := newWorld(t)
	ctx, paris := t.Context(), w.sites["paris"]
	create := func(name string, labels, annotations map[string]string) {
		w.check(paris.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}))
	}
	offloadedBy := func(consumer string) map[string]string {
		return map[string]string{consts.RemoteNamespaceManagedByAnnotationKey: "liqo-tenant-" + consumer + "/paris"}
	}
	tenantOf := func(peer, by string) map[string]string {
		return map[string]string{consts.RemoteClusterID: peer, consts.TenantNamespaceLabel: "true", agentv1alpha1.ManagedByLabel: by}
	}
	create("tenant-of-berlin", tenantOf("berlin", agentv1alpha1.ManagedByValue), nil)
	create("demo-berlin", map[string]string{consts.RemoteClusterID: "berlin"}, offloadedBy("berlin"))
	create("taken-berlin", map[string]string{consts.RemoteClusterID: "berlin"}, offloadedBy("berlin"))
	create("its-own", map[string]string{consts.RemoteClusterID: "berlin"}, nil)
	create("tenant-of-oslo", tenantOf("oslo", "liqoctl"), nil)
	create("demo-oslo", map[string]string{consts.RemoteClusterID: "oslo"}, offloadedBy("oslo"))
	foreign := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "taken-berlin", Name: guard.ObjectQuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: amountsOf("pods", "3")},
	}
	w.check(paris.client.Create(ctx, foreign))
	wantQuotas := func(when string, limits guard.ObjectLimits, want map[string]corev1.ResourceList) {
		t.Helper()
		w.check(paris.peering.KeepObjectQuotas(ctx, limits))
		var list corev1.ResourceQuotaList
		w.check(paris.client.List(ctx, &list))
		got := map[string]corev1.ResourceList{}
		for _, q := range list.Items {
			got[q.Namespace] = q.Spec.Hard
		}
		want["taken-berlin"] = foreign.Spec.Hard
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	offloaded, tenant := amountsOf("count/configmaps", "100"), amountsOf("count/resourceslices.authentication.liqo.io", "10")
	wantQuotas("at first", guard.ObjectLimits{Offloaded: offloaded, Tenant: tenant}, map[string]corev1.ResourceList{"demo-berlin": offloaded, "tenant-of-berlin": tenant})
	more := amountsOf("count/configmaps", "200")
	wantQuotas("with another limit", guard.ObjectLimits{Offloaded: more, Tenant: tenant}, map[string]corev1.ResourceList{"demo-berlin": more, "tenant-of-berlin": tenant})
	wantQuotas("without limits of tenants", guard.ObjectLimits{Offloaded: more}, map[string]corev1.ResourceList{"demo-berlin": more})
}

func TestObjectQuotasLeaveOutKindsThatKubernetesDoesNotCountYet(t *testing.T) {
	w := newWorld(t)
	ctx, paris := t.Context(), w.sites["paris"]
	tenant := map[string]string{consts.RemoteClusterID: "berlin", consts.TenantNamespaceLabel: "true", agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue}
	w.check(paris.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant-of-berlin", Labels: tenant}}))
	probe := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "agent", Name: "agent-objects"},
		Spec:       corev1.ResourceQuotaSpec{Hard: amountsOf("count/shadowpods.offloading.liqo.io", "1000000")},
	}
	all := amountsOf("count/configmaps", "100", "count/shadowpods.offloading.liqo.io", "200", "count/widgets.example.com", "3")
	wantQuota := func(when, probe string, want corev1.ResourceList) {
		t.Helper()
		w.check(paris.peering.KeepObjectQuotas(ctx, guard.ObjectLimits{Tenant: all, Probe: types.NamespacedName{Namespace: "agent", Name: probe}}))
		var quota corev1.ResourceQuota
		w.check(paris.client.Get(ctx, client.ObjectKey{Namespace: "tenant-of-berlin", Name: guard.ObjectQuotaName}, &quota))
		if diff := cmp.Diff(want, quota.Spec.Hard); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	counted := amountsOf("count/configmaps", "100", "count/widgets.example.com", "3")
	w.check(paris.client.Create(ctx, probe))
	wantQuota("before the kind is counted", "agent-objects", counted)
	probe.Status.Used = amountsOf("count/shadowpods.offloading.liqo.io", "0")
	w.check(paris.client.Update(ctx, probe))
	wantQuota("once the kind is counted", "agent-objects", all)
	wantQuota("without a probe", "", all)
	wantQuota("with a probe that somebody deleted", "elsewhere", all)
}

func amountsOf(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}
