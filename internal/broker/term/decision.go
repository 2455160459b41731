package term

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// Decision is the provider that a request may get now, and why.
type Decision struct {
	Provider    string
	Explanation ledger.Explanation
	// Price is the provider's price for the request, nil if it has no prices.
	Price *ledger.Price
	// OnNewNodes is true if the provider must create nodes first.
	OnNewNodes bool
}

// Timeouts are how long the broker waits for agents before it acts.
type Timeouts struct {
	// Placement limits how long the agents of a placement may take to set it up.
	Placement ledger.Limits
	// Silence is how long an agent may be silent before its cluster gets no new reservations.
	// Agents are asked to advertise three times within this time.
	Silence time.Duration
	// Healing is how long a provider may be silent before its reservations move to other
	// providers. It is at least Silence.
	Healing time.Duration
	// NotReady is how long a virtual node that was Ready may be NotReady before its reservation
	// moves to another provider.
	NotReady time.Duration
}

// AdvertiseEvery is the interval at which agents are asked to advertise.
func (t *Timeouts) AdvertiseEvery() time.Duration { return t.Silence / 3 }

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
