package advertisement

import (
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
)

// Peers finds out which other clusters this one reaches. It keeps what it found until the
// broker was told.
type Peers interface {
	Ask(peers []v1.Peer)
	Found() []v1.Link
	Told(links []v1.Link)
	// News receives when the broker is to be told at once.
	News() <-chan struct{}
}

var _ Peers = (*reach.Scout)(nil)

// found is what the broker is to be told of peers.
func (r *Reconciler) found() []v1.Link {
	if r.options.Peers == nil {
		return nil
	}
	return r.options.Peers.Found()
}

// look has those looked at that the broker asks about, which has what was told.
func (r *Reconciler) look(told []v1.Link, receipt *v1.AdvertisementReceipt) {
	if r.options.Peers == nil || receipt == nil {
		return
	}
	r.options.Peers.Told(told)
	r.options.Peers.Ask(receipt.Peers)
}
