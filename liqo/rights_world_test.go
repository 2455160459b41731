package liqo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

func TestRightsAreKeptWhereThePolicyReadsThem(t *testing.T) {
	w := newWorld(t)
	paris, key := w.sites["paris"], types.NamespacedName{Namespace: "default", Name: "offer"}
	w.check(paris.peering.KeepRights(t.Context(), key)) // there is no Advertisement yet
	adv := &agentv1alpha1.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	w.check(paris.client.Create(t.Context(), adv))
	adv.Status.PeerRights = map[string]agentv1alpha1.PeerRight{"res-b-1" + digestOfRome: "Write"}
	adv.Status.Published = true
	w.check(paris.client.Status().Update(t.Context(), adv))
	for name, labels := range map[string]map[string]string{
		"made-by-the-agent": object.TenantNamespaceLabels("rome"),
		"made-by-hand":      {consts.RemoteClusterID: "oslo", consts.TenantNamespaceLabel: "true"},
	} {
		w.check(paris.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	}
	w.reserve("rome", "paris", "res-a")
	w.check(paris.peering.KeepRights(t.Context(), key))
	var got agentv1alpha1.Advertisement
	w.exists("paris", key.Namespace, key.Name, &got)
	want := agentv1alpha1.AdvertisementStatus{Published: true, PeerRights: map[string]agentv1alpha1.PeerRight{
		"cluster.rome": "None", "res-a-1" + digestOfRome: "Write", "rome/res-a-1": "Write",
	}}
	if diff := cmp.Diff(want, got.Status); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
}

// A cache that does not show the decision yet must not revoke rights that were opened.
func TestOpenedRightsOutliveALateCache(t *testing.T) {
	w := newWorld(t)
	paris, key := w.sites["paris"], types.NamespacedName{Namespace: "default", Name: "offer"}
	w.reserve("rome", "paris", "res-a")
	inst := &agentv1alpha1.ProviderInstruction{}
	w.exists("paris", "default", "res-a-1", inst)
	if err := paris.peering.OpenRights(t.Context(), key, inst); err == nil {
		t.Error("rights were opened without an Advertisement")
	}
	w.check(paris.client.Create(t.Context(), &agentv1alpha1.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
	want := func(step string, want map[string]agentv1alpha1.PeerRight) {
		t.Helper()
		var got agentv1alpha1.Advertisement
		w.exists("paris", key.Namespace, key.Name, &got)
		if diff := cmp.Diff(want, got.Status.PeerRights); diff != "" {
			t.Errorf("%s, rights (-want +got):\n%s", step, diff)
		}
	}
	enforce := func(enforced bool) {
		t.Helper()
		inst.Status.Enforced = enforced
		w.check(paris.client.Status().Update(t.Context(), inst))
	}
	open := map[string]agentv1alpha1.PeerRight{"res-a-1" + digestOfRome: "Write", "rome/res-a-1": "Write"}
	enforce(false)
	w.check(paris.peering.OpenRights(t.Context(), key, inst))
	want("when they are opened", open)
	w.check(paris.peering.KeepRights(t.Context(), key))
	want("while the cache is late", open)
	enforce(true)
	w.check(paris.peering.KeepRights(t.Context(), key))
	want("once the cache shows it", open)
	enforce(false)
	w.check(paris.peering.KeepRights(t.Context(), key))
	want("when nothing is left", nil)
}
