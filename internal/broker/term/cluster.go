package term

// ClusterPhase says how recently a cluster was heard.
type ClusterPhase string

// The phases of a cluster.
const (
	// Active: the cluster advertises in time, or has no agent.
	Active ClusterPhase = "Active"
	// Stale: the cluster has been silent for some time and gets no new reservations.
	Stale ClusterPhase = "Stale"
	// Inactive: the cluster has been silent for a long time and gets no new reservations.
	Inactive ClusterPhase = "Inactive"
)
