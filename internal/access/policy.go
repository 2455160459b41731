package access

import (
	"maps"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Policy is what an administrator decided about who takes part and how much each may
// ask. The zero Policy admits everyone, within the limits that hold by default. It does
// not change.
type Policy struct {
	// Limits of every cluster.
	Limits       Limits
	approvedOnly bool
	// approved has the key that a cluster may enrol with, "" where none is named.
	approved map[string]string
	denied   map[string]struct{}
}

// Limits of one cluster; what is 0 is left to the server.
type Limits struct {
	// PerSecond is how many requests it may send over time, Burst how many at once, and
	// InFlight how many may be under way.
	PerSecond, Burst, InFlight int
}

// PolicyOf reads the lists and the limits of a BrokerConfig.
func PolicyOf(spec *brokerv1alpha1.BrokerConfigSpec) Policy {
	p := Policy{
		approvedOnly: spec.Admission == brokerv1alpha1.AdmissionApproved,
		approved:     map[string]string{},
		denied:       map[string]struct{}{},
	}
	for _, c := range spec.ApprovedClusters {
		p.approved[c.ClusterID] = c.KeyFingerprint
	}
	for _, id := range spec.DeniedClusters {
		p.denied[id] = struct{}{}
	}
	if l := spec.RateLimits; l != nil {
		p.Limits = Limits{int(l.RequestsPerSecond), int(l.Burst), int(l.InFlight)}
	}
	return p
}

// Check is nil for a cluster that may take part. Else it is an error with reason
// ClusterDenied or ClusterNotApproved.
func (p Policy) Check(clusterID string) error {
	if p.Denied(clusterID) {
		return fault.New(fault.ClusterDenied,
			"cluster %q is denied by the administrator of the broker: spec.deniedClusters of its BrokerConfig has it", clusterID)
	}
	if _, ok := p.approved[clusterID]; p.approvedOnly && !ok {
		return fault.New(fault.ClusterNotApproved,
			"cluster %q is not approved: ask the administrator of the broker to add it to spec.approvedClusters of its BrokerConfig", clusterID)
	}
	return nil
}

// Denied says that a cluster is shut out by name. A name that is no cluster's can be
// as well.
func (p Policy) Denied(clusterID string) bool {
	_, ok := p.denied[clusterID]
	return ok
}

// ApprovesKey says that a cluster may enrol with this key and no token.
func (p Policy) ApprovesKey(clusterID, keyFingerprint string) bool {
	return keyFingerprint != "" && p.approved[clusterID] == keyFingerprint
}

// Contradictions are the clusters that are approved and denied, sorted. They are
// denied.
func (p Policy) Contradictions() []string {
	var both []string
	for _, id := range slices.Sorted(maps.Keys(p.denied)) {
		if _, ok := p.approved[id]; ok {
			both = append(both, id)
		}
	}
	return both
}
