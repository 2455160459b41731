package packing

import (
	"cmp"
	"math"
	"slices"
)

// Group is a number of pods of one size.
type Group struct {
	Pod
	Count int64
}

// Harm returns by how much other pods can at most reduce n.Count(target), wherever the scheduler
// puts them and in whatever order they start. The exact maximum is hard to compute. Harm returns an
// upper bound, which may be larger.
//
// Below, a place is room for one pod of target. A node loses places when it runs out of any one
// resource. Harm computes one bound for each resource and adds these bounds. The bound for a
// resource is how many places the other pods could take if their total request for this resource
// could be divided at will and used for the cheapest places first. A second bound adds up how many
// places each of the other pods can take alone. Harm returns the smaller bound.
func (n *Nodes) Harm(target Pod, others []Group) int64 {
	var byAmount float64
	for _, need := range target.Needs {
		if need.Column >= 0 {
			byAmount += n.harmIn(need, target, others)
		}
	}
	byPod := 0.0
	for _, g := range others {
		byPod += float64(g.Count) * worstOf(target, g.Pod)
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

// supply is what the other pods together request of one resource.
type supply struct {
	total float64
	// least is the smallest request of a pod. unit is the greatest common divisor of all
	// requests.
	least, unit int64
	groups      []Group
}

func supplyOf(column int32, others []Group) supply {
	s := supply{least: math.MaxInt64}
	for _, g := range others {
		for _, need := range g.Needs {
			if need.Column == column && need.Amount > 0 && g.Count > 0 {
				s.total += float64(need.Amount) * float64(g.Count)
				s.least, s.unit = min(s.least, need.Amount), greatestDivisor(need.Amount, s.unit)
				s.groups = append(s.groups, g)
			}
		}
	}
	return s
}

func greatestDivisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mayUse reports whether any of the pods may run on nodes of a class (see Pod.On).
func (s *supply) mayUse(class int32) bool {
	return slices.ContainsFunc(s.groups, func(g Group) bool { return isOn(g.On, class) })
}

// price says how much of one resource the other pods must use to take places: each is the amount
// for one place, and places is how many places cost that amount.
type price struct{ places, each float64 }

// harmIn returns how many places of target (see Harm) the other pods can take with what they
// request of one resource.
func (n *Nodes) harmIn(need Need, target Pod, others []Group) float64 {
	s := supplyOf(need.Column, others)
	if s.total == 0 {
		return 0
	}
	var prices []price
	for at := range n.bins {
		places := n.countFit(at, target)
		if free := n.freeAt(at, need.Column); places > 0 && free != NotNamed && s.mayUse(n.bins[at].class) {
			prices = n.appendPrices(prices, &s, free, places, need.Amount, n.bins[at].count)
		}
	}
	slices.SortFunc(prices, func(a, b price) int { return cmp.Compare(a.each, b.each) })
	left, taken := s.total, 0.0
	for _, p := range prices {
		if cost := p.places * p.each; cost >= left {
			return taken + left/p.each
		}
		left, taken = left-p.places*p.each, taken+p.places
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
