package clusters

import (
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func (cs *Clusters) noteElastic(c *ledger.Cluster) {
	if c.Elastic != nil && len(c.Elastic.Nodes) > 0 {
		cs.elastic[c.ClusterID] = true
	} else {
		delete(cs.elastic, c.ClusterID)
	}
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
