package view

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// The broker seldom writes the time of the last message into the status of a cluster that is Fresh,
// so the time there is outdated and is not shown.
func TestLastHeardIsShownOfClustersThatAreNotFresh(t *testing.T) {
	for status, want := range map[metav1.ConditionStatus]bool{metav1.ConditionTrue: false, metav1.ConditionFalse: true, metav1.ConditionUnknown: true} {
		c := &brokerv1alpha1.ClusterAdvertisement{}
		c.Status.LastReceived = new(metav1.NewTime(time.Unix(0, 0)))
		c.Status.Conditions = []metav1.Condition{{Type: brokerv1alpha1.ConditionFresh, Status: status}}
		s := &Snapshot{At: time.Unix(600, 0), Broker: &BrokerObjects{}}
		shown := slices.ContainsFunc(s.clusterFacts(c), func(f Fact) bool { return f.Name == "last heard" })
		if shown != want {
			t.Errorf("Fresh is %s: shown is %t, want %t", status, shown, want)
		}
	}
}
