package packing

import (
	"cmp"
	"math"
	"slices"
)

// Group is a number of equal pods.
type Group struct {
	Pod
	Count int64
}

// Harm returns how many of the places that Count finds for target's pods other pods can take at
// most, wherever the scheduler puts them and in whatever order they start. The true maximum is
// hard to compute; Harm may be larger, and never smaller.
//
// A node loses a place when it runs out of one resource. So the bound asks for each resource how
// many places its total could take if it were divided at will, the cheapest places first. Another
// bound is what each pod can take alone; the lesser of both holds.
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

// rounding makes up for inexact divisions.
const rounding = 1e-6

// worstOf returns how many places of target one pod takes at most.
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

// supply is what other pods request of one resource.
type supply struct {
	total float64
	// least is the smallest request, and unit divides all requests.
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

// mayUse reports whether any of these pods may run on nodes of the class; see Pod.On.
func (s *supply) mayUse(class int32) bool {
	return slices.ContainsFunc(s.groups, func(g Group) bool { return isOn(g.On, class) })
}

// price is what a number of places costs on a node, in one resource.
type price struct{ places, each float64 }

// harmIn returns how many places other pods can take by what they request of one resource.
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

// appendPrices adds the prices of the places on count equal nodes. The first place costs what
// would stay free beside all places, and one unit more, but whole pods have to be paid.
func (n *Nodes) appendPrices(prices []price, s *supply, free, places, size, count int64) []price {
	first := free - places*size + 1
	paid := max(s.least, (first+s.unit-1)/s.unit*s.unit)
	if paid > free {
		return prices // no pods fit that would take a place
	}
	got := min(places, 1+(paid-first)/size)
	if each := float64(paid) / float64(got); each <= float64(size) {
		prices = append(prices, price{float64(got * count), each})
		return append(prices, price{float64((places - got) * count), float64(size)})
	}
	// The first place is dearer than the others, so taking all is cheapest for each.
	all := max(paid, first+(places-1)*size)
	return append(prices, price{float64(places * count), float64(all) / float64(places)})
}
