package broker

import "github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"

// noteSilence writes down that a provider that holds something is silent, so that those
// concerned are told. What it holds stays held.
func (t *session) noteSilence(clusterID string) {
	c, p := t.book.Cluster(clusterID), t.presenceOf(clusterID)
	if !c.Agent || p.phase == ClusterActive || !c.LostSince.IsZero() || c.Placements() == 0 {
		return
	}
	t.log.Info("provider is silent; what it holds stays held", "cluster", clusterID, "heard", p.heard, "reservations", len(c.Reservations()))
	if err := t.record(ledger.Event{Reach: &ledger.Reach{ClusterID: clusterID, Since: p.heard.UTC()}}); err != nil {
		t.log.Error(err, "that a provider is silent could not be written down; trying again", "cluster", clusterID)
		t.deadlines.set(clusterDue+clusterID, t.now().Add(reopenDelay))
	}
}

// noteReturn is the reverse, once the provider's agent has spoken.
func (t *session) noteReturn(clusterID string) error {
	if t.book.Cluster(clusterID).LostSince.IsZero() {
		return nil
	}
	return t.record(ledger.Event{Reach: &ledger.Reach{ClusterID: clusterID}})
}
