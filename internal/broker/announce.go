package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
)

// AnnounceHoldings implements the server's Broker. It adds reservations that the book has lost and
// ends reservations that the cluster no longer has. The broker believes what a cluster says about
// the capacity that it provides and the reservations that it requests, but nothing about other
// clusters. It answers a repetition of the last announcement, and refuses an announcement that it
// does not await with fault.Conflict: the agent must not assume that the broker knows its holdings.
func (b *Broker) AnnounceHoldings(ctx context.Context, clusterID string, said *v1.Holdings) error {
	h, err := recovery.ReadHoldings(clusterID, said)
	if err != nil {
		return err
	}
	return b.commitPlanFor(ctx, clusterID, func(s *session) error { return s.Recovery.TakeHoldings(clusterID, h) })
}

// Witness processes the cursor that a cluster sends with a call. A cursor ahead of the journal
// means that the journal was restored from an older state.
func (b *Broker) Witness(clusterID, cursor string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, err := b.currentSession(); err == nil {
		s.Recovery.NoteCursor(clusterID, cursor)
	}
}
