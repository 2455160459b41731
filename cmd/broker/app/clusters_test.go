package app

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestClustersThatTakeNothingAreNamedWithTheReason(t *testing.T) {
	cluster := func(id, reason string) brokerv1alpha1.ClusterAdvertisement {
		ready := metav1.Condition{Type: brokerv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "why " + id}
		if reason == brokerv1alpha1.ClusterAdvertisementActive {
			ready.Status = metav1.ConditionTrue
		}
		return brokerv1alpha1.ClusterAdvertisement{
			ObjectMeta: metav1.ObjectMeta{Name: id},
			Spec:       brokerv1alpha1.ClusterAdvertisementSpec{ClusterID: id},
			Status:     brokerv1alpha1.ClusterAdvertisementStatus{Conditions: []metav1.Condition{ready}},
		}
	}
	rome := cluster("rome", "Active")
	for name, tc := range map[string]struct {
		clusters []brokerv1alpha1.ClusterAdvertisement
		level    checkup.Level
		says     string
		advises  string
	}{
		"no cluster":           {nil, checkup.Warning, "no cluster has advertised capacity", "docs/install.md"},
		"all are active":       {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "Active")}, checkup.OK, "2 of 2 take new reservations", ""},
		"one is denied":        {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "Denied")}, checkup.OK, "1 of 2 take new reservations; Denied: oslo", ""},
		"one failed too often": {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "Paused")}, checkup.Warning, "Paused: oslo", "lift the pauses"},
		"two are silent":       {[]brokerv1alpha1.ClusterAdvertisement{cluster("rome", "Stale"), cluster("oslo", "Inactive")}, checkup.Warning, "0 of 2 take new reservations; Inactive: oslo; Stale: rome", "see its agent"},
		"a manifest is wrong":  {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "Invalid")}, checkup.Warning, "Invalid: oslo", "why oslo"},
		"one was not read yet": {[]brokerv1alpha1.ClusterAdvertisement{{ObjectMeta: metav1.ObjectMeta{Name: "oslo"}, Spec: brokerv1alpha1.ClusterAdvertisementSpec{ClusterID: "oslo"}}}, checkup.Warning, "Pending: oslo", "is a broker ready?"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := newScheme()
			runtest.Check(t, err)
			c := fake.NewClientBuilder().WithScheme(scheme).WithLists(&brokerv1alpha1.ClusterAdvertisementList{Items: tc.clusters}).Build()
			got := checkClusters(t.Context(), c)
			if got.Level != tc.level || !strings.Contains(got.Message, tc.says) || !strings.Contains(got.Advice, tc.advises) {
				t.Errorf("got %+v, want %s, %q and advice %q", got, tc.level, tc.says, tc.advises)
			}
		})
	}
}
