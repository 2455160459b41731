package decision

import "github.com/mehdiazizian/liqo-resource-broker/internal/terms"

// checkNodes holds the needs against the nodes that the request selects: what is free
// on others does not count.
func (c *contest) checkNodes(i int) (need int, ok bool) {
	for k := range c.needs {
		if c.selectedRoom(i, &c.needs[k]) < c.needs[k].amount {
			return k, false
		}
	}
	return 0, true
}

// selectedRoom is what selected nodes of a row have free of a resource, saturating at
// what is needed.
func (c *contest) selectedRoom(i int, n *need) int64 {
	var room int64
	nodes := c.market.shapes[i]
	for k := range nodes {
		s := &nodes[k]
		free := s.freeOf(n.column)
		if free <= 0 || !terms.HasAll(s.labels, c.nodeLabels) {
			continue
		}
		if missing := n.amount - room; s.count > (missing-1)/free {
			return n.amount
		}
		room += s.count * free
	}
	return room
}

func (s *shape) freeOf(column int32) int64 {
	if column < 0 || int(column) >= len(s.free) {
		return notNamed
	}
	return s.free[column]
}
