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

// pendingLinks returns the probe results that the broker has not received yet.
func (r *Reconciler) pendingLinks() []v1.Link {
	if r.options.Peers == nil {
		return nil
	}
	return r.options.Peers.Found()
}

// scheduleProbes schedules probes of the peers that the receipt names, and drops the results that
// the broker received with the advertisement (told).
func (r *Reconciler) scheduleProbes(told []v1.Link, receipt *v1.AdvertisementReceipt) {
	if r.options.Peers == nil {
		return
	}
	r.options.Peers.Told(told)
	r.options.Peers.Ask(receipt.Peers)
}
