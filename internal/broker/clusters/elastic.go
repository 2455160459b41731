package clusters

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// noteElastic adds the cluster to elastic if it can create nodes, or else removes it. It returns within
// which time the nodes are Ready, 0 for none.
func (cs *Clusters) noteElastic(c *ledger.Cluster) time.Duration {
	if c.Elastic == nil || len(c.Elastic.Nodes) == 0 {
		delete(cs.elastic, c.ClusterID)
		return 0
	}
	cs.elastic[c.ClusterID] = true
	return c.Elastic.ReadyWithin
}

// SupposeElastic counts the nodes that clusters can create as existing, in FreeOf and in the market,
// until undo is called. It returns nil if no cluster can create nodes, or if they count already.
func (cs *Clusters) SupposeElastic() (undo func()) {
	if len(cs.elastic) == 0 || cs.extended {
		return nil
	}
	// updateFree would note these clusters as freed, and waiting requests would be tried for ever.
	cs.countElastic(true, cs.s.OpenCapacity)
	return func() { cs.countElastic(false, cs.updateFree) }
}

func (cs *Clusters) countElastic(extended bool, freeOf func(*ledger.Cluster) quantity.Amounts) {
	cs.extended = extended
	cs.market.CountNewNodes(extended)
	for id := range cs.elastic {
		cs.market.SetAvailable(id, freeOf(cs.s.Book().Cluster(id)))
		cs.reshaped[id] = true
	}
}

// FreeOf returns the amounts that can be granted on a cluster: on its existing nodes, and within
// SupposeElastic also on those that it can create.
func (cs *Clusters) FreeOf(c *ledger.Cluster) quantity.Amounts {
	if cs.extended {
		return c.AvailableWithNewNodes()
	}
	return c.Available()
}
