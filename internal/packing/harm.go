package packing

import "math"

// Group is a number of pods of one size.
type Group struct {
	Pod
	Count int64
}

// Harm returns by how much other pods can at most reduce n.Count(target), wherever the scheduler
// puts them and in whatever order they start. loose are amounts of which other pods may request any
// part: groups of pods that request one unit of one resource. The exact maximum is hard to compute.
// Harm returns an upper bound, which may be larger.
//
// Below, a place is room for one pod of target. A node loses places when it runs out of any one
// resource. Harm computes one bound for each resource and adds these bounds. The bound for a
// resource is how many places the other pods could take if their total request for this resource
// could be divided at will and used for the cheapest places first. A second bound adds up how many
// places each of the other pods can take alone, and the first bound for loose alone. Harm returns
// the smaller bound.
func (n *Nodes) Harm(target Pod, others, loose []Group) int64 {
	n.places = n.places[:0]
	for at := range n.bins {
		n.places = append(n.places, n.countFit(at, target))
	}
	byAmount, byPod := 0.0, 0.0
	for _, need := range target.Needs {
		byAmount += n.harmIn(need, target, others, loose)
	}
	for _, g := range others {
		if shareNodes(target, g.Pod) {
			byPod += float64(g.Count) * worstOf(target, g.Pod)
		}
	}
	for _, need := range target.Needs {
		if byPod < byAmount {
			byPod += n.harmIn(need, target, loose)
		}
	}
	return int64(min(byAmount, byPod, math.MaxInt64/2) + rounding)
}

// rounding is added to the result because divisions of floats are inexact.
const rounding = 1e-6

// worstOf returns how many places of target (see Harm) one pod can take at most.
func worstOf(target, pod Pod) float64 {
	worst := int64(0)
	for _, t := range target.Needs {
		for _, p := range pod.Needs {
			if t.Column == p.Column && t.Column >= 0 {
				worst = max(worst, (p.Amount-1)/t.Amount+1)
			}
		}
	}
	return float64(worst)
}

// supply is what the other pods that may run on nodes of target together request of one resource.
type supply struct {
	total float64
	// least is the smallest request of a pod. unit is the greatest common divisor of all
	// requests.
	least, unit int64
	// on says for each class of nodes whether any of the pods may run there (see Pod.On).
	on []bool
}

func supplyOf(column int32, target Pod, others ...[]Group) supply {
	s := supply{least: math.MaxInt64, on: []bool{}}
	for _, groups := range others {
		for _, g := range groups {
			for _, need := range g.Needs {
				if need.Column == column && need.Amount > 0 && g.Count > 0 && shareNodes(target, g.Pod) {
					s.total += float64(need.Amount) * float64(g.Count)
					s.least, s.unit = min(s.least, need.Amount), greatestDivisor(need.Amount, s.unit)
					s.allow(g.On)
				}
			}
		}
	}
	return s
}

// allow adds classes to s.on.
func (s *supply) allow(on []bool) {
	if on == nil || s.on == nil {
		s.on = nil
		return
	}
	s.on = append(s.on, make([]bool, len(on)-len(s.on))...)
	for class, may := range on {
		s.on[class] = s.on[class] || may
	}
}

// shareNodes reports whether there may be nodes on which both pods may run.
func shareNodes(a, b Pod) bool {
	for class, may := range a.On {
		if may && isOn(b.On, int32(class)) {
			return true
		}
	}
	return a.On == nil
}

func greatestDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// price says how much of one resource the other pods must use to take places: each is the amount
// for one place, and places is how many places cost that amount.
type price struct{ places, each float64 }

// harmIn returns how many places of target (see Harm) the other pods can take with what they
// request of one resource.
func (n *Nodes) harmIn(need Need, target Pod, others ...[]Group) float64 {
	s := supplyOf(need.Column, target, others...)
	if s.total == 0 {
		return 0
	}
	prices := n.prices[:0]
	for at, places := range n.places {
		if free := n.freeAt(at, need.Column); places > 0 && free != NotNamed && isOn(s.on, n.bins[at].class) {
			prices = n.appendPrices(prices, &s, free, places, need.Amount, n.bins[at].count)
		}
	}
	n.prices = prices
	return placesFor(s.total, prices)
}

// placesFor returns how many places can be taken with an amount, the cheapest first. It changes the
// order of prices. It is a quicksort of only the part in which the amount runs out.
func placesFor(amount float64, prices []price) (taken float64) {
	for len(prices) > 0 {
		pivot := prices[len(prices)/2].each
		low, at, high := 0, 0, len(prices) // prices[:low] are cheaper than pivot, prices[high:] dearer
		var cheaper, cost, equal float64
		for at < high {
			switch p := prices[at]; {
			case p.each < pivot:
				cheaper, cost = cheaper+p.places, cost+p.places*p.each
				prices[low], prices[at] = p, prices[low]
				low, at = low+1, at+1
			case p.each > pivot:
				high--
				prices[high], prices[at] = p, prices[high]
			default:
				equal, at = equal+p.places, at+1
			}
		}
		switch {
		case cost >= amount:
			prices = prices[:low]
		case cost+equal*pivot >= amount:
			return taken + cheaper + (amount-cost)/pivot
		default:
			amount, taken, prices = amount-cost-equal*pivot, taken+cheaper+equal, prices[high:]
		}
	}
	return taken
}

// appendPrices appends the prices of the places on count equal nodes, the cheapest first. On each
// node, free is the free amount of the resource, places is how many pods of target fit, and size is
// what each of them needs.
//
// To take the first place, the other pods must use the amount that would stay free beside all
// places, and one unit more. As only whole pods can be placed, this is rounded up to an amount that
// their requests can add up to. The rounded amount may take more than one place. It may also pay
// for a part of the next place, which then costs less than size. Each further place costs size.
//
// The prices must ascend, because harmIn pays them in this order. So if the next place is cheaper
// than the ones before it, they all get their average price.
func (n *Nodes) appendPrices(prices []price, s *supply, free, places, size, count int64) []price {
	first := free - places*size + 1
	paid := max(s.least, (first+s.unit-1)/s.unit*s.unit)
	if paid > free {
		return prices // pods that take a place would not fit on the node
	}
	got := min(places, 1+(paid-first)/size)
	each := float64(paid) / float64(got)
	if got < places {
		next := first + got*size
		if extra := float64(next - paid); extra >= each {
			prices = append(prices, price{float64(got * count), each}, price{float64(count), extra})
			return append(prices, price{float64((places - got - 1) * count), float64(size)})
		}
		got, each = got+1, float64(next)/float64(got+1)
	}
	if each > float64(size) {
		all := max(paid, first+(places-1)*size)
		return append(prices, price{float64(places * count), float64(all) / float64(places)})
	}
	return append(prices, price{float64(got * count), each}, price{float64((places - got) * count), float64(size)})
}
