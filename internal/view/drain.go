package view

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Drained is a cluster in BrokerConfig.spec.drains. If CordonOnly is true, the cluster gets no new
// reservations and keeps its present ones.
type Drained struct {
	ClusterID  string `json:"clusterID"`
	CordonOnly bool   `json:"cordonOnly,omitempty"`
	Reason     string `json:"reason,omitempty"`
	// Progress is the message of the condition Drained; empty if the cluster does not have it.
	Progress string `json:"progress,omitempty"`
}

// drainedClusters returns the clusters in spec.drains, sorted by ID. It returns none without a
// BrokerConfig.
func (s *Snapshot) drainedClusters() (out []Drained) {
	if s.Broker == nil || s.Broker.Config == nil {
		return nil
	}
	for _, d := range s.Broker.Config.Spec.Drains {
		one := Drained{ClusterID: d.ClusterID, CordonOnly: d.CordonOnly, Reason: d.Reason}
		for _, c := range s.Broker.Clusters {
			if condition := meta.FindStatusCondition(c.Status.Conditions, brokerv1alpha1.ConditionDrained); c.Spec.ClusterID == d.ClusterID && condition != nil {
				one.Progress = condition.Message
			}
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Drained) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return out
}

func (s *Snapshot) isQueuePaused() bool {
	return s.Broker != nil && s.Broker.Config != nil && s.Broker.Config.Spec.Queue != nil && s.Broker.Config.Spec.Queue.Paused
}

func describeDrained(all []Drained) string {
	var parts []string
	for _, d := range all {
		switch {
		case d.CordonOnly:
			parts = append(parts, d.ClusterID+" (cordoned)")
		case d.Progress != "":
			parts = append(parts, d.ClusterID+" ("+d.Progress+")")
		default:
			parts = append(parts, d.ClusterID)
		}
	}
	return strings.Join(parts, ", ")
}
