package edits

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// NewConfig returns an empty BrokerConfig with the only name that is valid.
func NewConfig() *brokerv1alpha1.BrokerConfig {
	return &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName}}
}

// SetDrain adds an entry for a cluster to spec.drains. It replaces an entry of the same cluster. With cordonOnly, the
// entry has no notice.
func SetDrain(config *brokerv1alpha1.BrokerConfig, id string, notice time.Duration, cordonOnly bool, reason string) {
	entry := brokerv1alpha1.ClusterDrain{ClusterID: id, CordonOnly: cordonOnly, Reason: reason}
	if !cordonOnly {
		entry.Notice = &metav1.Duration{Duration: notice}
	}
	if i := slices.IndexFunc(config.Spec.Drains, func(d brokerv1alpha1.ClusterDrain) bool { return d.ClusterID == id }); i >= 0 {
		config.Spec.Drains[i] = entry
		return
	}
	config.Spec.Drains = append(config.Spec.Drains, entry)
}

// EndDrain removes a cluster from spec.drains. It reports whether the cluster was there.
func EndDrain(config *brokerv1alpha1.BrokerConfig, id string) bool {
	before := len(config.Spec.Drains)
	config.Spec.Drains = slices.DeleteFunc(config.Spec.Drains, func(d brokerv1alpha1.ClusterDrain) bool { return d.ClusterID == id })
	return len(config.Spec.Drains) < before
}

// DescribeAffected counts the reservations that a cluster serves, by requester. It says if there may be more.
func DescribeAffected(s *view.Snapshot, id string) string {
	counts, sum, others := map[string]int{}, 0, ""
	if slices.ContainsFunc(s.Gaps, func(g view.Gap) bool { return g.Resource == "reservations" }) {
		others = " that you may list, and perhaps others"
	}
	for _, r := range s.Broker.Reservations {
		if r.Status.TargetClusterID != id || r.Status.Phase != brokerv1alpha1.ReservationReserved && r.Status.Phase != brokerv1alpha1.ReservationActive {
			continue
		}
		counts[r.Spec.RequesterID]++
		sum++
	}
	if sum == 0 {
		return "no reservation" + others
	}
	var parts []string
	for requester, n := range counts {
		parts = append(parts, fmt.Sprintf("%d of %s", n, requester))
	}
	slices.SortFunc(parts, cmp.Compare)
	noun := "reservations"
	if sum == 1 {
		noun = "reservation"
	}
	return fmt.Sprintf("%d %s (%s)%s", sum, noun, strings.Join(parts, ", "), others)
}

// ApproveCluster adds a cluster and its key to approvedClusters. It returns an error unless the cluster has asked to
// enrol with this key.
func ApproveCluster(config *brokerv1alpha1.BrokerConfig, id, fingerprint string) error {
	asks := slices.ContainsFunc(config.Status.PendingEnrolments, func(p brokerv1alpha1.PendingEnrolment) bool {
		return p.ClusterID == id && p.KeyFingerprint == fingerprint
	})
	if !asks {
		return fmt.Errorf("no pending request of %s has key %s: kubectl broker enrolments lists them. If the agent logs this key, somebody else asks under its name, or it has not asked within the last hour", id, fingerprint)
	}
	if slices.Contains(config.Spec.DeniedClusters, id) {
		return fmt.Errorf("%s is in deniedClusters of the BrokerConfig, which overrides approvals: remove it there first", id)
	}
	entry := brokerv1alpha1.ApprovedCluster{ClusterID: id, KeyFingerprint: fingerprint}
	i := slices.IndexFunc(config.Spec.ApprovedClusters, func(a brokerv1alpha1.ApprovedCluster) bool { return a.ClusterID == id })
	if i < 0 {
		config.Spec.ApprovedClusters = append(config.Spec.ApprovedClusters, entry)
	} else {
		config.Spec.ApprovedClusters[i] = entry
	}
	return nil
}
