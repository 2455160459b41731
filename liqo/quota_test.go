package liqo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func amountsOf(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func keptFor(consumer, reservation string, enforced bool, amounts corev1.ResourceList) *agentv1alpha1.ProviderInstruction {
	return &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: reservation + "-1"},
		Spec: agentv1alpha1.ProviderInstructionSpec{
			ReservationName: reservation, Placement: 1, RequesterClusterID: consumer, Resources: amounts,
		},
		Status: agentv1alpha1.ProviderInstructionStatus{Enforced: enforced},
	}
}

func TestQuotasAreWhatIsKeptForAConsumerInAll(t *testing.T) {
	ended := keptFor("rome", "ended", true, amountsOf("cpu", "1"))
	ended.Spec.Release = true // and its pods still run
	got := NamespaceQuotas([]agentv1alpha1.ProviderInstruction{
		*keptFor("rome", "a", true, amountsOf("cpu", "2", "memory", "4Gi", "nvidia.com/gpu", "1", "pods", "10")),
		*keptFor("rome", "b", true, amountsOf("cpu", "500m")),
		*ended,
		*keptFor("rome", "refused", false, amountsOf("cpu", "64")),
		*keptFor("berlin", "c", true, amountsOf("memory", "1Gi")),
	})
	want := map[string]corev1.ResourceList{
		"rome":   amountsOf("requests.cpu", "3500m", "requests.memory", "4Gi", "requests.nvidia.com/gpu", "1", "pods", "10"),
		"berlin": amountsOf("requests.memory", "1Gi"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("quotas (-want +got):\n%s", diff)
	}
}

func TestQuotasFollowWhatIsKept(t *testing.T) {
	w := newWorld(t)
	ctx, paris := t.Context(), w.sites["paris"]
	namespace := func(name string, labels, annotations map[string]string) {
		w.check(paris.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations}}))
	}
	managed := map[string]string{consts.RemoteNamespaceManagedByAnnotationKey: "liqo-tenant-rome/paris"}
	namespace("demo-rome", map[string]string{consts.RemoteClusterID: "rome"}, managed)
	namespace("taken-rome", map[string]string{consts.RemoteClusterID: "rome"}, managed)
	namespace("demo-berlin", map[string]string{consts.RemoteClusterID: "berlin"}, map[string]string{consts.RemoteNamespaceManagedByAnnotationKey: "liqo-tenant-berlin/paris"})
	namespace("its-own", map[string]string{consts.RemoteClusterID: "rome"}, nil)
	foreign := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "taken-rome", Name: NamespaceQuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: amountsOf("pods", "3")},
	}
	w.check(paris.client.Create(ctx, foreign))
	wantQuotas := func(when string, want map[string]corev1.ResourceList) {
		t.Helper()
		w.check(paris.peering.KeepQuotas(ctx))
		var list corev1.ResourceQuotaList
		w.check(paris.client.List(ctx, &list))
		got := map[string]corev1.ResourceList{}
		for _, q := range list.Items {
			got[q.Namespace] = q.Spec.Hard
		}
		want["taken-rome"] = foreign.Spec.Hard
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}

	wantQuotas("nothing is kept", map[string]corev1.ResourceList{})
	inst := keptFor("rome", "a", true, amountsOf("cpu", "2"))
	w.check(paris.client.Create(ctx, inst))
	wantQuotas("one", map[string]corev1.ResourceList{"demo-rome": amountsOf("requests.cpu", "2")})

	w.check(paris.client.Get(ctx, client.ObjectKeyFromObject(inst), inst))
	inst.Spec.Resources = amountsOf("cpu", "5")
	w.check(paris.client.Update(ctx, inst))
	wantQuotas("it grew", map[string]corev1.ResourceList{"demo-rome": amountsOf("requests.cpu", "5")})

	w.check(paris.client.Delete(ctx, inst))
	wantQuotas("it is gone", map[string]corev1.ResourceList{})
}
