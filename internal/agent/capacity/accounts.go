package capacity

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// accounts holds the running totals. It is not safe for concurrent use.
//
// Invariant: every total is the sum over the nodes that count. A node's own sums cover all pods
// bound to it, even if the node does not count or has not been seen yet.
type accounts struct {
	nodes map[string]*node
	pods  map[podKey]podRecord
	used  map[string]*placement
	// pending is separate, because its pods have no node.
	pending *demand

	capacity    quantity.Amounts
	allocatable quantity.Amounts
	allocated   quantity.Amounts
	counted     int
	// revision changes whenever a node changes.
	revision int64

	histogram histogram
	// reshaped are the nodes whose free amounts changed since the histogram was last read.
	reshaped map[*node]struct{}
}

// node is the record of a node. known is false if only pods have named it so far.
type node struct {
	name  string
	known bool
	facts nodeFacts
	pods  int
	// waiting are the pods that the node has not accepted; nil if there are none.
	waiting map[podKey]waitingPod
	// own and used split the requests on the node into those of own pods and those of
	// placements.
	own  quantity.Amounts
	used map[*placement]*tally

	shape shape
}

// tally is a sum and the number of pods in it.
type tally struct {
	pods int
	sum  quantity.Amounts
}

// placement sums the requests of one placement's pods on the nodes that count.
type placement struct {
	name string
	pods int
	sum  quantity.Amounts
}

// podRecord is the part of a pod that is kept.
type podRecord struct {
	node      *node
	placement *placement
	request   request
}

func newAccounts() *accounts {
	return &accounts{
		nodes:       map[string]*node{},
		pods:        map[podKey]podRecord{},
		used:        map[string]*placement{},
		pending:     newDemand(),
		capacity:    quantity.Amounts{},
		allocatable: quantity.Amounts{},
		allocated:   quantity.Amounts{},
		revision:    1,
		histogram:   newHistogram(),
		reshaped:    map[*node]struct{}{},
	}
}

// setNode records a node and reports whether anything changed.
func (a *accounts) setNode(name string, facts nodeFacts) bool {
	n := a.nodeOf(name)
	if n.known && n.facts.equal(facts) {
		return false
	}
	a.addNode(n, -1)
	n.known, n.facts = true, facts
	a.addNode(n, +1)
	return true
}

// removeNode forgets a node and reports whether it was known. The requests of its pods are kept
// until the pods go, in case the node comes back first.
func (a *accounts) removeNode(name string) bool {
	n, ok := a.nodes[name]
	if !ok || !n.known {
		return false
	}
	a.addNode(n, -1)
	n.known, n.facts = false, nodeFacts{}
	a.addNode(n, +1)
	a.dropIfEmpty(n)
	return true
}

// replaceNodes makes the given nodes the only known ones.
func (a *accounts) replaceNodes(facts map[string]nodeFacts) bool {
	changed := false
	for name, n := range a.nodes {
		if _, ok := facts[name]; !ok && n.known {
			changed = a.removeNode(name) || changed
		}
	}
	for name, f := range facts {
		changed = a.setNode(name, f) || changed
	}
	return changed
}

// setPod records a pod and reports whether anything changed. It removes a pod without a node.
func (a *accounts) setPod(key podKey, facts podFacts) bool {
	if facts.node == "" {
		return a.removePod(key)
	}
	if old, ok := a.pods[key]; ok {
		if old.node.name == facts.node && old.placementName() == facts.placement && old.request.equal(&facts.request) {
			old.node.setWaiting(key, facts.waiting)
			return false
		}
		a.removePod(key)
	}
	record := podRecord{node: a.nodeOf(facts.node), request: facts.request}
	if facts.placement != "" {
		record.placement = a.placementOf(facts.placement)
	}
	a.pods[key] = record
	record.node.setWaiting(key, facts.waiting)
	a.chargePod(&record, +1)
	return true
}

func (a *accounts) removePod(key podKey) bool {
	record, ok := a.pods[key]
	if !ok {
		return false
	}
	delete(a.pods, key)
	record.node.setWaiting(key, waitingPod{})
	a.chargePod(&record, -1)
	a.dropIfEmpty(record.node)
	if p := record.placement; p != nil && p.pods == 0 {
		delete(a.used, p.name)
	}
	return true
}

// replacePods makes the given pods the only ones.
func (a *accounts) replacePods(facts map[podKey]podFacts) bool {
	changed := false
	for key := range a.pods {
		if _, ok := facts[key]; !ok {
			changed = a.removePod(key) || changed
		}
	}
	for key, f := range facts {
		changed = a.setPod(key, f) || changed
	}
	return changed
}

// addNode adds everything on a node to the totals, or subtracts it.
func (a *accounts) addNode(n *node, sign int64) {
	a.revision++
	a.reshaped[n] = struct{}{}
	if n.facts.ours {
		addTo(a.capacity, n.facts.capacity, sign)
	}
	if !n.facts.counts {
		return
	}
	a.counted += int(sign)
	addTo(a.allocatable, n.facts.allocatable, sign)
	addTo(a.allocated, n.own, sign)
	for p, t := range n.used {
		addTo(p.sum, t.sum, sign)
	}
}

// chargePod adds a pod to its node or subtracts it, and does the same with the totals if the node
// counts.
func (a *accounts) chargePod(r *podRecord, sign int64) {
	n := r.node
	n.pods += int(sign)
	a.reshaped[n] = struct{}{}
	if r.placement == nil {
		r.request.addTo(n.own, sign)
		if n.facts.counts {
			r.request.addTo(a.allocated, sign)
		}
		return
	}
	r.placement.pods += int(sign)
	n.chargePlacement(r.placement, &r.request, sign)
	if n.facts.counts {
		r.request.addTo(r.placement.sum, sign)
	}
}

// setWaiting records whether the node has accepted a pod. That changes no figure.
func (n *node) setWaiting(key podKey, w waitingPod) {
	if w.name == "" {
		delete(n.waiting, key)
		return
	}
	if n.waiting == nil {
		n.waiting = map[podKey]waitingPod{}
	}
	n.waiting[key] = w
}

// waitingSince counts the pods that were bound to the node before an instant and that it has not
// accepted, and names the one that waits longest.
func (n *node) waitingSince(before int64) (count int, longest string) {
	var first waitingPod
	for _, w := range n.waiting {
		if w.since >= before {
			continue
		}
		count++
		if first.name == "" || w.since < first.since || w.since == first.since && w.name < first.name {
			first = w
		}
	}
	return count, first.name
}

func (n *node) chargePlacement(p *placement, r *request, sign int64) {
	t := n.used[p]
	if t == nil {
		t = &tally{sum: quantity.Amounts{}}
		if n.used == nil {
			n.used = map[*placement]*tally{}
		}
		n.used[p] = t
	}
	t.pods += int(sign)
	r.addTo(t.sum, sign)
	if t.pods == 0 {
		delete(n.used, p)
	}
}

func (a *accounts) nodeOf(name string) *node {
	n, ok := a.nodes[name]
	if !ok {
		n = &node{name: name, own: quantity.Amounts{}}
		a.nodes[name] = n
	}
	return n
}

func (a *accounts) dropIfEmpty(n *node) {
	if !n.known && n.pods == 0 {
		a.histogram.removeShape(&n.shape)
		delete(a.reshaped, n)
		delete(a.nodes, n.name)
	}
}

func (a *accounts) placementOf(name string) *placement {
	p, ok := a.used[name]
	if !ok {
		p = &placement{name: name, sum: quantity.Amounts{}}
		a.used[name] = p
	}
	return p
}

func (r *podRecord) placementName() string {
	if r.placement == nil {
		return ""
	}
	return r.placement.name
}

// freeOf returns how much of a resource pods can still request on the node.
func (n *node) freeOf(name corev1.ResourceName) int64 {
	left := n.facts.allocatable[name] - n.own[name]
	for _, t := range n.used {
		left -= t.sum[name]
	}
	return max(left, 0)
}

// freeAmounts returns what is free of every resource of the node.
func (n *node) freeAmounts() quantity.Amounts {
	room := make(quantity.Amounts, len(n.facts.allocatable))
	for name := range n.facts.allocatable {
		room[name] = n.freeOf(name)
	}
	return room
}

// newLayout visits every pod, so it is for decisions and not for every change.
func (a *accounts) newLayout() Layout {
	a.updateHistogram()
	out := Layout{Nodes: a.histogram.shapesAt(0), Running: map[string][]quantity.Amounts{}}
	for _, r := range a.pods {
		if r.placement != nil && r.node.facts.counts {
			request := quantity.Amounts{}
			r.request.addTo(request, +1)
			out.Running[r.placement.name] = append(out.Running[r.placement.name], request)
		}
	}
	return out
}

// updateHistogram brings the histogram up to date.
func (a *accounts) updateHistogram() {
	for n := range a.reshaped {
		a.histogram.moveNode(n)
	}
	clear(a.reshaped)
}

func (a *accounts) newSnapshot() Snapshot {
	a.updateHistogram()
	used := make(map[string]quantity.Amounts, len(a.used))
	for name, p := range a.used {
		used[name] = p.sum.Clone()
	}
	return Snapshot{
		Capacity:    a.capacity.Clone(),
		Allocatable: a.allocatable.Clone(),
		Allocated:   a.allocated.Clone(),
		Used:        used,
		Pending:     a.pending.sum.Clone(),
		Nodes:       a.counted,
		NodeShapes:  a.histogram.finestShapes(),
	}
}

// fitsFree compares a request with the capacity that no pod has requested yet.
func (a *accounts) fitsFree(request quantity.Amounts) (quantity.Shortage, bool) {
	free := maps.Clone(a.allocatable)
	addTo(free, a.allocated, -1)
	for _, p := range a.used {
		addTo(free, p.sum, -1)
	}
	return quantity.Fits(request, free)
}

// addTo adds b times the sign to sum in place. The bound of single amounts prevents overflow.
func addTo(sum, b quantity.Amounts, sign int64) {
	for name, amount := range b {
		sum[name] += sign * amount
	}
}
