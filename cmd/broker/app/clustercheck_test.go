package app

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
)

func TestClustersThatTakeNothingAreNamedWithTheReason(t *testing.T) {
	cluster := func(id, reason string) brokerv1alpha1.ClusterAdvertisement {
		ready := metav1.Condition{Type: brokerv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: "why " + id}
		if reason == brokerv1alpha1.ClusterAdvertisementActive {
			ready.Status = metav1.ConditionTrue
		}
		return brokerv1alpha1.ClusterAdvertisement{
			Spec:   brokerv1alpha1.ClusterAdvertisementSpec{ClusterID: id},
			Status: brokerv1alpha1.ClusterAdvertisementStatus{Conditions: []metav1.Condition{ready}},
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
		"one is denied":        {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "Denied")}, checkup.OK, "1 of 2 take new reservations; denied: oslo", ""},
		"one is drained":       {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "Cordoned")}, checkup.OK, "cordoned or drained by BrokerConfig.spec.drains: oslo", ""},
		"one has paused":       {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "LendingPaused")}, checkup.OK, "paused by their LendingPolicies: oslo", ""},
		"one was uninstalled":  {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "ProviderLeaving")}, checkup.OK, "uninstalled: oslo", ""},
		"two are silent":       {[]brokerv1alpha1.ClusterAdvertisement{cluster("rome", "Stale"), cluster("oslo", "Inactive")}, checkup.Warning, "0 of 2 take new reservations; silent: rome; silent for long: oslo", "agent check"},
		"one failed too often": {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "Paused")}, checkup.Warning, "paused after failures: oslo", "condition Reliable"},
		"one has no Liqo":      {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "ProviderNotReady")}, checkup.Warning, "without a working Liqo: oslo", "agent check"},
		"one has to announce":  {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "AwaitingHoldings")}, checkup.Warning, "yet to announce their holdings: oslo", "agents run"},
		"a manifest is wrong":  {[]brokerv1alpha1.ClusterAdvertisement{rome, cluster("oslo", "Invalid")}, checkup.Warning, "refused: oslo (why oslo)", "correct"},
		"one was not read yet": {[]brokerv1alpha1.ClusterAdvertisement{{Spec: brokerv1alpha1.ClusterAdvertisementSpec{ClusterID: "oslo"}}}, checkup.Warning, "oslo (the broker has not processed it)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := judgeClusters(tc.clusters)
			if got.Level != tc.level || !strings.Contains(got.Message, tc.says) || !strings.Contains(got.Advice, tc.advises) {
				t.Errorf("got %+v, want %s, %q and advice %q", got, tc.level, tc.says, tc.advises)
			}
		})
	}
}
