package liqo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

const (
	rightOfRome  = "rome.peers.broker.fluidos.eu/res-a-1"
	ownNamespace = "liqo-resource-broker"
)

func (w *world) createOwnNamespace(annotations map[string]string) {
	w.t.Helper()
	w.check(w.sites["paris"].client.Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ownNamespace, Annotations: annotations}}))
}

func (w *world) wantRights(step string, want map[string]string) {
	w.t.Helper()
	var got corev1.Namespace
	w.exists("paris", "", ownNamespace, &got)
	if diff := cmp.Diff(want, got.Annotations); diff != "" {
		w.t.Errorf("%s, annotations (-want +got):\n%s", step, diff)
	}
}

func TestRightsAreKeptWhereThePolicyReadsThem(t *testing.T) {
	w := newWorld(t)
	paris := w.sites["paris"]
	if err := paris.peering.KeepRights(t.Context(), ownNamespace); err == nil {
		t.Error("the rights were kept without a namespace")
	}
	w.createOwnNamespace(map[string]string{"example.com/note": "stays", "rome.peers.broker.fluidos.eu/res-b-1": "Write"})
	for name, labels := range map[string]map[string]string{
		"made-by-the-agent": object.TenantNamespaceLabels("rome"),
		"made-later":        object.TenantNamespaceLabels("milan"),
		"made-by-hand":      {consts.RemoteClusterID: "oslo", consts.TenantNamespaceLabel: "true"},
	} {
		w.check(paris.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	}
	w.reserve("rome", "paris", "res-a")
	w.check(paris.peering.KeepRights(t.Context(), ownNamespace))
	w.wantRights("with one reservation", map[string]string{
		"example.com/note": "stays", "broker.fluidos.eu/cluster-id": "paris", "broker.fluidos.eu/guarded-peers": "milan rome", rightOfRome: "Write",
	})
}

// Before the agent has enrolled, it says which consumers the policies are about.
func TestConsumersOfPersonsAreNotGuardedBeforeTheFirstRights(t *testing.T) {
	w := newWorld(t)
	paris := w.sites["paris"]
	if err := guard.InitRights(t.Context(), paris.client, ownNamespace); err == nil {
		t.Error("there is no namespace")
	}
	w.createOwnNamespace(map[string]string{"example.com/note": "stays"})
	create := func(name string, labels map[string]string) {
		w.check(paris.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	}
	create("made-by-the-agent", object.TenantNamespaceLabels("rome"))
	create("made-by-hand", map[string]string{consts.RemoteClusterID: "oslo", consts.TenantNamespaceLabel: "true"})
	w.check(guard.InitRights(t.Context(), paris.client, ownNamespace))
	want := map[string]string{"example.com/note": "stays", "broker.fluidos.eu/guarded-peers": "rome"}
	w.wantRights("at the first start", want)
	create("made-later", object.TenantNamespaceLabels("milan"))
	w.check(guard.InitRights(t.Context(), paris.client, ownNamespace))
	w.wantRights("at a later start", want)
}

// The consumer's slice may arrive before this cluster has decided about the placement.
func TestASliceIsAdmittedBeforeTheDecision(t *testing.T) {
	w := newWorld(t)
	paris := w.sites["paris"]
	w.reserve("rome", "paris", "res-a")
	inst := &agentv1alpha1.ProviderInstruction{}
	w.exists("paris", "default", "res-a-1", inst)
	if err := paris.peering.AdmitSlice(t.Context(), ownNamespace, inst); err == nil {
		t.Error("a slice was admitted without a namespace that holds its right")
	}
	w.createOwnNamespace(nil)
	w.check(paris.peering.AdmitSlice(t.Context(), ownNamespace, inst))
	w.wantRights("on arrival", map[string]string{rightOfRome: "Create"})
	label := inst.DeepCopy()
	label.Spec.RequesterClusterID = "team_a"
	w.check(paris.peering.AdmitSlice(t.Context(), ownNamespace, label))
	w.wantRights("for a requester that cannot be a cluster", map[string]string{rightOfRome: "Create"})
	for step, test := range map[string]struct {
		status agentv1alpha1.ProviderInstructionStatus
		want   string
	}{
		"while the cluster decides": {want: "Create"},
		"when it provides":          {status: agentv1alpha1.ProviderInstructionStatus{Enforced: true}, want: "Write"},
		"when it refuses": {status: agentv1alpha1.ProviderInstructionStatus{Conditions: []metav1.Condition{{
			Type: agentv1alpha1.ConditionAcknowledged, Status: metav1.ConditionFalse, Reason: "Refused", LastTransitionTime: metav1.Unix(1, 0),
		}}}},
	} {
		inst.Status = test.status
		w.check(paris.client.Status().Update(t.Context(), inst))
		w.check(paris.peering.KeepRights(t.Context(), ownNamespace))
		want := map[string]string{"broker.fluidos.eu/cluster-id": "paris", "broker.fluidos.eu/guarded-peers": ""}
		if test.want != "" {
			want[rightOfRome] = test.want
		}
		w.wantRights(step, want)
	}
}
