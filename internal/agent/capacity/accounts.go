package capacity

import (
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// accounts holds the running totals. It is not safe for concurrent use.
//
// Invariant: capacity is the sum over all nodes except Liqo's virtual nodes, and every other total
// is the sum over the nodes that count (see the package comment). The sums of a single node include
// all pods bound to it, even if the node does not count or is not known yet.
type accounts struct {
	nodes map[string]*node
	pods  map[podKey]podRecord
	used  map[string]*placement
	// pending sums the requests of pods that have no node, so it is independent of the nodes.
	pending *demand

	capacity    quantity.Amounts
	allocatable quantity.Amounts
	allocated   quantity.Amounts
	counted     int
	// revision increases whenever a node changes.
	revision int64

	histogram histogram
	// reshaped holds the nodes whose free amounts may have changed since the last update of the histogram.
	reshaped map[*node]struct{}
}

// node is the record of a node. known is false for a node that has not been seen, but to which a
// pod is bound.
type node struct {
	name  string
	known bool
	facts nodeFacts
	pods  int
	// guests counts the pods of workloads on the node, see IsGuest. came counts all such pods that have been added so
	// far, including those that are gone.
	guests int
	came   uint64
	// waiting holds the pods that the node's kubelet has not accepted yet, or that have no node at the provider.
	waiting map[podKey]waitingPod
	// own is the sum of the requests of this cluster's own pods on the node. used holds the sums of
	// the placements' pods on the node.
	own  quantity.Amounts
	used map[*placement]*tally

	shape shape
}

// tally is the sum of the requests of pods, with their number.
type tally struct {
	pods int
	sum  quantity.Amounts
}

// placement holds the sum of the requests of one placement's pods on the nodes that count.
type placement struct {
	name string
	pods int
	sum  quantity.Amounts
}

// podRecord says to which node and placement a pod's requests were added, so that they can be
// subtracted again.
type podRecord struct {
	node      *node
	placement *placement
	request   request
	guest     bool
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

// removeNode keeps the records of the node's pods until they are removed: the node may come back earlier.
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

func (a *accounts) replaceNodes(facts map[string]nodeFacts) bool {
	return replaceAll(a.nodes, facts, a.setNode, a.removeNode)
}

func replaceAll[K comparable, V, F any](known map[K]V, facts map[K]F, set func(K, F) bool, remove func(K) bool) bool {
	changed := false
	for key := range known {
		if _, ok := facts[key]; !ok {
			changed = remove(key) || changed
		}
	}
	for key, f := range facts {
		changed = set(key, f) || changed
	}
	return changed
}

// setPod adds or updates a pod. It removes a pod without a node. It reports whether the pod, its
// node, its placement or its requests changed. A change of facts.waiting alone does not count.
func (a *accounts) setPod(key podKey, facts podFacts) bool {
	if facts.node == "" {
		return a.removePod(key)
	}
	if old, ok := a.pods[key]; ok {
		if old.node.name == facts.node && old.placementName() == facts.placement && old.guest == facts.guest && old.request.equal(&facts.request) {
			old.node.setWaiting(key, facts.waiting)
			return false
		}
		a.removePod(key)
	}
	record := podRecord{node: a.nodeOf(facts.node), request: facts.request, guest: facts.guest}
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

func (a *accounts) replacePods(facts map[podKey]podFacts) bool {
	return replaceAll(a.pods, facts, a.setPod, a.removePod)
}

// addNode adds everything on a node to the totals, or subtracts it if sign is -1.
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

// chargePod adds a pod to the sums of its node and, if the node counts, to the totals. -1 subtracts it.
func (a *accounts) chargePod(r *podRecord, sign int64) {
	n := r.node
	n.pods += int(sign)
	if r.guest {
		n.guests += int(sign)
		n.came += uint64(max(sign, 0))
	}
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

// setWaiting records that a pod waits on the node, or no longer waits if w is empty.
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

// waitingSince returns how many pods have waited since before an instant, in Unix seconds: for the
// node to accept them or, with unplaced, for a node at the provider. It also returns the name of the
// pod that has waited longest.
func (n *node) waitingSince(before int64, unplaced bool) (count int, longest string) {
	var first waitingPod
	for _, w := range n.waiting {
		if w.since >= before || w.unplaced != unplaced {
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

// addTo adds sign times the amounts of b to sum in place. maxAmount limits each amount, so no
// realistic sum overflows.
func addTo(sum, b quantity.Amounts, sign int64) {
	for name, amount := range b {
		sum[name] += sign * amount
	}
}
