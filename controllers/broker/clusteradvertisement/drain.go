package clusteradvertisement

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
)

// describeCordon returns why a cluster in BrokerConfig.spec.drains gets nothing new, as the
// message of a condition.
func describeCordon(d *drains.View) string {
	text := "BrokerConfig.spec.drains lists the cluster"
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	if d.CordonOnly {
		return text + " with cordonOnly; running workloads stay"
	}
	return text + ", see condition Drained"
}

// setDrained sets the condition Drained of a cluster that is being emptied. It removes the
// condition from any other cluster.
func setDrained(status *brokerv1alpha1.ClusterAdvertisementStatus, v *broker.ClusterView, generation int64) {
	if v.Drain == nil || v.Drain.CordonOnly {
		meta.RemoveStatusCondition(&status.Conditions, brokerv1alpha1.ConditionDrained)
		return
	}
	c := metav1.Condition{
		Type: brokerv1alpha1.ConditionDrained, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ReasonDrained,
		Message: "nothing is reserved on the cluster", ObservedGeneration: generation,
	}
	if v.Placements > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonDraining, fmt.Sprintf("%d placements are left", v.Placements)
		if !v.Drain.Ends.IsZero() {
			c.Message += ", the last one has to leave by " + v.Drain.Ends.UTC().Format(time.RFC3339)
		} else {
			c.Message += ", all were given up and are being taken down"
		}
	}
	meta.SetStatusCondition(&status.Conditions, c)
}
