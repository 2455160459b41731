package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"

// PendingDemand is the sum of the requests of a cluster's unschedulable pods, as last advertised.
type PendingDemand = offers.Demand

// storePending stores the pending demand that a cluster has advertised. It ignores small
// differences, so that a backlog that comes and goes does not cause a write of the
// ClusterAdvertisement with every advertisement.
func (cs *clusters) storePending(clusterID string, demand PendingDemand) {
	p := cs.presenceOf(clusterID)
	if !demand.DiffersMaterially(&p.demand) {
		return
	}
	p.demand = demand
	if cs.s.book.Cluster(clusterID) != nil {
		cs.s.b.feed.addCluster(clusterID)
	}
}
