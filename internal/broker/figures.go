package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/metrics"
)

// NewCollector returns a collector of all metrics of a broker.
func NewCollector(b *Broker) prometheus.Collector { return b.meter.Collector(b, b.opts.Version) }

// Figures implements metrics.Source. It reads reservations, clusters and accounts one after the
// other and releases Broker.mu after each of them, so that other calls need not wait until all are
// read.
func (b *Broker) Figures() *metrics.Figures {
	f := metrics.NewFigures()
	readCosts := func(s *session, f *metrics.Figures) { f.AddCosts(s.whole.Costs, s.Recorder.Label) }
	for _, read := range []func(*session, *metrics.Figures){readReservations, readClusters, readCosts} {
		if !b.withSession(func(s *session) { read(s, f) }) {
			return nil
		}
	}
	return f
}

// withSession calls read with the session while it holds Broker.mu. It returns false without
// calling read if this replica does not serve.
func (b *Broker) withSession(read func(*session)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.currentSession()
	if err != nil {
		return false
	}
	read(s)
	return true
}

func readReservations(s *session, f *metrics.Figures) {
	f.Now, f.Position, f.Waiting, f.Awaited = s.Now(), s.book.Position(), s.Queue.Len(), s.Recovery.CountAwaited()
	s.book.Reservations(f.AddReservation)
}

func readClusters(s *session, f *metrics.Figures) {
	s.book.Clusters(func(c *ledger.Cluster) {
		if c.IsWithdrawn() && c.Placements() == 0 {
			return
		}
		p := s.Presence(c.ClusterID)
		m := metrics.Member{Label: s.Recorder.Label(c.ClusterID), Phase: p.Phase, Heard: p.Heard, Closed: !p.Open, Exceeds: p.Excess != nil && p.Excess.All != ""}
		if standing := p.Standing; standing != nil {
			m.Paused = standing.Paused.Why != ""
			m.Closed = m.Closed || m.Paused || standing.Cordoned != ""
		}
		f.AddCluster(c, m)
	})
}
