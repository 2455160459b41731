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

// The consumer's slice may arrive before this cluster has decided about the placement.
func TestASliceIsAdmittedBeforeTheDecision(t *testing.T) {
	w := newWorld(t)
	paris, key := w.sites["paris"], types.NamespacedName{Namespace: "default", Name: "offer"}
	w.reserve("rome", "paris", "res-a")
	inst := &agentv1alpha1.ProviderInstruction{}
	w.exists("paris", "default", "res-a-1", inst)
	if err := paris.peering.AdmitSlice(t.Context(), key, inst); err == nil {
		t.Error("a slice was admitted without an Advertisement")
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
	decide := func(status agentv1alpha1.ProviderInstructionStatus) {
		t.Helper()
		inst.Status = status
		w.check(paris.client.Status().Update(t.Context(), inst))
		w.check(paris.peering.KeepRights(t.Context(), key))
	}
	admitted := map[string]agentv1alpha1.PeerRight{"rome/res-a-1": "Write"}
	w.check(paris.peering.AdmitSlice(t.Context(), key, inst))
	want("on arrival", admitted)
	decide(agentv1alpha1.ProviderInstructionStatus{})
	want("while the cluster decides", admitted)
	decide(agentv1alpha1.ProviderInstructionStatus{Enforced: true})
	want("when it provides", map[string]agentv1alpha1.PeerRight{"res-a-1" + digestOfRome: "Write", "rome/res-a-1": "Write"})
	decide(agentv1alpha1.ProviderInstructionStatus{Conditions: []metav1.Condition{{
		Type: agentv1alpha1.ConditionAcknowledged, Status: metav1.ConditionFalse, Reason: "Refused", LastTransitionTime: metav1.Unix(1, 0),
	}}})
	want("when it refuses", nil)
}
