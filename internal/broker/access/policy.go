package access

import (
	"maps"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Policy says which clusters may use the broker, and how much each of them may request. An
// administrator sets it in the BrokerConfig. The zero Policy admits every cluster, within the
// default limits. A Policy is never modified.
type Policy struct {
	// Limits apply to each cluster separately.
	Limits       Limits
	approvedOnly bool
	// approved maps the ID of each approved cluster to the fingerprint of the key with which it
	// may enrol; "" if none is set.
	approved map[string]string
	denied   map[string]struct{}
}

// Limits bound what one cluster may request. A field that is zero means the server's default.
type Limits struct {
	// PerSecond is how many requests per second are allowed on average, Burst how many are
	// allowed at once, and InFlight how many may be processed at the same time.
	PerSecond, Burst, InFlight int
	// Connections is how many connections the cluster may have open at the same time.
	Connections int
}

// PolicyOf returns the policy in a BrokerConfig: its admission lists and limits.
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

// Check returns nil if the cluster may use the broker. Otherwise it returns an error with reason
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

// Denied reports whether the cluster is in the list of denied clusters. clusterID need not be a
// valid cluster ID.
func (p Policy) Denied(clusterID string) bool {
	_, ok := p.denied[clusterID]
	return ok
}

// Approving returns a copy of the policy that also approves a cluster. A denied cluster stays
// denied. p does not change.
func (p Policy) Approving(clusterID string) Policy {
	p.approved = maps.Clone(p.approved)
	if p.approved == nil {
		p.approved = map[string]string{}
	}
	if _, ok := p.approved[clusterID]; !ok {
		p.approved[clusterID] = ""
	}
	return p
}

// ApprovesKey reports whether the cluster may enrol without a token if it has this key.
func (p Policy) ApprovesKey(clusterID, keyFingerprint string) bool {
	return keyFingerprint != "" && p.approved[clusterID] == keyFingerprint
}

// Contradictions returns the IDs of the clusters that are both approved and denied, sorted. These
// clusters are denied.
func (p Policy) Contradictions() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.denied)), func(id string) bool {
		_, ok := p.approved[id]
		return !ok
	})
}
