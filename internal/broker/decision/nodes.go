package decision

import "github.com/mehdiazizian/liqo-resource-broker/internal/requirements"

// checkNodes compares the needs with the free room on the nodes that the request selects. Room
// on other nodes does not count.
func (c *contest) checkNodes(i int) (need int, ok bool) {
	for k := range c.needs {
		if c.selectedRoom(i, &c.needs[k]) < c.needs[k].amount {
			return k, false
		}
	}
	return 0, true
}

// selectedRoom returns the free amount of a resource on the selected nodes of a row, but at
// most the needed amount.
func (c *contest) selectedRoom(i int, n *need) int64 {
	var room int64
	nodes := c.market.shapes[i]
	for k := range nodes {
		s := &nodes[k]
		free := s.freeOf(n.column)
		if free <= 0 || !requirements.HasAll(s.labels, c.nodeLabels) {
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
