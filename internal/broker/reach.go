package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"

// noteSilence writes down that a provider that holds something is silent, so that those
// concerned are told. What it holds stays held.
func (t *term) noteSilence(clusterID string) {
	c, p := t.state.Cluster(clusterID), t.presenceOf(clusterID)
	if !c.Agent || p.phase == ClusterActive || !c.LostSince.IsZero() || c.Placements() == 0 {
		return
	}
	t.b.opts.Log.Info("provider is silent; what it holds stays held", "cluster", clusterID, "heard", p.heard, "reservations", len(c.Reservations()))
	if err := t.record(ledger.Event{Change: &ledger.Reach{ClusterID: clusterID, Since: p.heard.UTC()}}); err != nil {
		t.b.opts.Log.Error(err, "that a provider is silent could not be written down; trying again", "cluster", clusterID)
		t.due.set(clusterDue+clusterID, t.now().Add(reopenDelay))
	}
}

// noteReturn is the reverse, once the provider's agent has spoken.
func (t *term) noteReturn(clusterID string) error {
	if t.state.Cluster(clusterID).LostSince.IsZero() {
		return nil
	}
	return t.record(ledger.Event{Change: &ledger.Reach{ClusterID: clusterID}})
}
