package decision

// checksNodes reports whether the amounts of the request must fit on a part of the candidate's
// nodes: the request selects nodes by labels, or some nodes have taints.
func (c *contest) checksNodes(i int) bool {
	return len(c.nodeLabels) > 0 || c.market.marks[i]&tainted != 0
}

// checkNodes reports whether every need fits into the free room on the nodes that the request
// selects and tolerates. Room on other nodes does not count. If not, need is the index of the first
// need that does not fit.
func (c *contest) checkNodes(i int) (need int, ok bool) {
	for k := range c.needs {
		if c.selectedRoom(i, &c.needs[k]) < c.needs[k].amount {
			return k, false
		}
	}
	return 0, true
}

// selectedRoom returns how much of a resource is free on the nodes that the request selects and
// tolerates. It stops counting at the needed amount.
func (c *contest) selectedRoom(i int, n *need) int64 {
	var room int64
	nodes := c.market.shapes[i]
	for k := range nodes {
		s := &nodes[k]
		free := s.freeOf(n.column)
		if free <= 0 || !c.mayUseShape(s) {
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
