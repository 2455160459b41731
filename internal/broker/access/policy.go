package access

import (
	"maps"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Policy is the administrator's decision about who takes part and how much each cluster may
// request. The zero Policy admits every cluster, within the default limits. A Policy is
// immutable.
type Policy struct {
	// Limits apply to each cluster separately.
	Limits       Limits
	approvedOnly bool
	// approved maps a cluster ID to the fingerprint of the key it may enrol with; "" if none is
	// set.
	approved map[string]string
	denied   map[string]struct{}
}

// Limits bound the requests of one cluster. A zero field means the server's default.
type Limits struct {
	// PerSecond is the sustained request rate, Burst the size of a burst, and InFlight the number
	// of concurrent requests.
	PerSecond, Burst, InFlight int
	// Connections is how many connections the cluster may have open.
	Connections int
}

// PolicyOf reads the admission lists and limits of a BrokerConfig.
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
		p.Limits = Limits{PerSecond: int(l.RequestsPerSecond), Burst: int(l.Burst), InFlight: int(l.InFlight)}
	}
	if b := spec.MemberBudget; b != nil {
		p.Limits.Connections = int(b.Connections)
	}
	return p
}

// Check returns nil if the cluster may take part, or an error with reason ClusterDenied or
// ClusterNotApproved.
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

// Denied reports whether the list of denied clusters contains the name. The name need not be a
// valid cluster ID.
func (p Policy) Denied(clusterID string) bool {
	_, ok := p.denied[clusterID]
	return ok
}

// ApprovesKey reports whether the cluster may enrol with this key and no token.
func (p Policy) ApprovesKey(clusterID, keyFingerprint string) bool {
	return keyFingerprint != "" && p.approved[clusterID] == keyFingerprint
}

// Contradictions returns, sorted, the clusters that are both approved and denied. Denied wins.
func (p Policy) Contradictions() []string {
	var both []string
	for _, id := range slices.Sorted(maps.Keys(p.denied)) {
		if _, ok := p.approved[id]; ok {
			both = append(both, id)
		}
	}
	return both
}
