package advertisement

import (
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
)

// Peers probes whether this cluster reaches the clusters that the broker asks about. Ask schedules
// probes, Found returns the results, and Told drops results that the broker has received.
type Peers interface {
	Ask(peers []v1.Peer)
	Found() []v1.Link
	Told(links []v1.Link)
	// News receives a value when a result should be sent to the broker at once.
	News() <-chan struct{}
}

var _ Peers = (*reach.Scout)(nil)
