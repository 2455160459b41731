// Package fitting decides whether the pods of a new placement will find nodes here, next to the
// pods that were promised to other placements and do not run yet.
//
// The agent does not know in which order these pods will start, nor whether the scheduler packs or
// spreads them. It therefore assumes the worst case: the pods of all other placements start first,
// on the nodes where they are most in the way. A pod that fits even then is certain to fit. A new
// placement is accepted if all its pods are certain to fit, and if all promised pods that were
// certain to fit before still are.
//
// A placement may have been promised amounts instead of pods of known sizes. Check takes these
// amounts from the nodes with the most room, as the broker does. If the placement's pods may run
// only on some nodes, the total that is free on these nodes must be large enough.
package fitting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/packing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Node describes Count nodes with the same labels and the same free amounts.
type Node struct {
	Count  int64
	Free   quantity.Amounts
	Labels map[string]string
	// Taints are the offered taints of these nodes.
	Taints []brokerv1alpha1.Taint
}

// Pods describes Count pods of the same size.
type Pods struct {
	Count int64
	Each  quantity.Amounts
}

// Promise is the part of a placement that does not run yet, with its requirements on nodes.
type Promise struct {
	Pods []Pods
	// Rest holds the amounts that were promised in addition to Pods.
	Rest quantity.Amounts
	// NodeSelector holds the labels that a node must have to run the pods.
	NodeSelector map[string]string
	Tolerations  []brokerv1alpha1.Toleration
}

// Unused returns the part of a placement that does not run yet: the promised pods that are not
// running (left), and the amounts that are kept beyond these and the running pods (rest). Each
// running pod takes the place of one promised pod: the smallest one that is at least as large as
// the running pod.
func Unused(kept quantity.Amounts, promised []Pods, running []quantity.Amounts) (left []Pods, rest quantity.Amounts) {
	left = slices.Clone(promised)
	rest = kept.Max(nil)
	for _, pod := range running {
		rest = rest.Sub(pod)
		best := -1
		for i := range left {
			if left[i].Count > 0 && isCovered(left[i].Each, pod) && (best < 0 || isCovered(left[best].Each, left[i].Each)) {
				best = i
			}
		}
		if best >= 0 {
			left[best].Count--
		}
	}
	for i := range left {
		// The rest may be too small for all promised pods that are left. This happens if a running pod
		// matched none of them, or if the kept amounts were reduced.
		left[i].Count = min(left[i].Count, timesInto(left[i].Each, rest))
		rest = rest.Sub(left[i].Each.Times(left[i].Count))
	}
	return slices.DeleteFunc(left, func(p Pods) bool { return p.Count == 0 }), rest.Max(nil)
}

// isCovered reports whether a promised pod of the given size is at least as large as pod. It
// ignores the resource "pods", because every pod counts as 1.
func isCovered(size, pod quantity.Amounts) bool {
	for name, amount := range pod {
		if amount > size[name] && name != corev1.ResourcePods {
			return false
		}
	}
	return true
}

func timesInto(each, amounts quantity.Amounts) int64 {
	times := int64(math.MaxInt64)
	for name, amount := range each {
		if have, named := amounts[name]; amount > 0 && (named || name != corev1.ResourcePods) {
			times = min(times, max(have, 0)/amount)
		}
	}
	return times
}

// Misfit describes the pods or amounts of a placement that do not fit.
type Misfit struct {
	// Short is a resource of which too little is free on the nodes where the pods may run. If it is
	// the zero value, Pods and Fit are set.
	Short quantity.Shortage
	Pods
	// Fit is how many of the Pods are certain to fit. If it equals Count, all of them fit, but only on
	// nodes that pods promised to other placements need.
	Fit int64
}

// Message explains the misfit to the consumer.
func (m *Misfit) Message() string {
	if s := m.Short; s.Resource != "" {
		return fmt.Sprintf("requested %s of %s, but the nodes that the request selects and tolerates have only %s free, next to what is promised to others",
			quantity.Format(s.Resource, s.Need), s.Resource, quantity.Format(s.Resource, s.Have))
	}
	if m.Fit >= m.Count {
		return fmt.Sprintf("%d pods of %s fit here, but only on nodes that pods promised to others need", m.Count, formatAmounts(m.Each))
	}
	return fmt.Sprintf("of %d pods of %s only %d fit on the nodes here, next to the pods promised to others", m.Count, formatAmounts(m.Each), m.Fit)
}

func formatAmounts(each quantity.Amounts) string {
	var parts []string
	for _, name := range each.Names() {
		parts = append(parts, fmt.Sprintf("%s %s", name, quantity.Format(name, each[name])))
	}
	return strings.Join(parts, ", ")
}

// Check returns the pods or amounts of a new placement that do not fit on the nodes next to the
// other promises, or nil if all fit. Check does not check the promised amounts (Rest) of a
// placement that may use all nodes: the caller must compare them with the free total.
func Check(nodes []Node, others []Promise, wanted Promise) *Misfit {
	f := newFloor(nodes, others, wanted)
	me := len(others)
	if short := f.shortOnSelected(me); short.Resource != "" {
		return &Misfit{Short: short}
	}
	for k, kind := range f.promises[me].kinds {
		if fit := f.countCertain(me, k, me+1); fit < kind.Count {
			return &Misfit{Pods: wanted.Pods[kind.from], Fit: fit}
		}
	}
	for i := range others {
		for k, kind := range f.promises[i].kinds {
			if with := f.countCertain(i, k, me+1); with < kind.Count && with < f.countCertain(i, k, me) {
				first := f.promises[me].kinds[0]
				return &Misfit{Pods: wanted.Pods[first.from], Fit: first.Count}
			}
		}
	}
	return nil
}

// floor holds the nodes and the promises in the form that package packing needs, in which amounts
// are lists with one column for each resource.
type floor struct {
	columns packing.Columns
	nodes   packing.Nodes
	// classes holds one node for each combination of labels and taints. The index in this list is the
	// number of the class.
	classes  []*Node
	promises []promise
	// scratch is a copy of nodes on which pods are placed. It is reused to save memory.
	scratch packing.Nodes
}

type promise struct {
	kinds []kind
	rest  []packing.Need
	on    []bool
}

// kind is one size of pods of a promise. from is its index in Promise.Pods.
type kind struct {
	packing.Group
	from int
}

func newFloor(nodes []Node, others []Promise, wanted Promise) *floor {
	f := &floor{}
	for i := range nodes {
		f.columns.Name(nodes[i].Free)
	}
	f.nodes.Reset(len(f.columns))
	slots := f.columns.Find(corev1.ResourcePods) >= 0
	classes := map[string]int32{}
	for i := range nodes {
		key := fmt.Sprint(nodes[i].Labels, nodes[i].Taints)
		class, known := classes[key]
		if !known {
			class = int32(len(f.classes))
			classes[key] = class
			f.classes = append(f.classes, &nodes[i])
		}
		f.nodes.Add(nodes[i].Count, f.columns.Free(nodes[i].Free), class)
	}
	for _, p := range append(slices.Clone(others), wanted) {
		f.promises = append(f.promises, f.promiseOf(p, slots))
	}
	for i := range others {
		for _, n := range f.promises[i].rest {
			f.nodes.TakeRoomiest(n.Column, n.Amount, f.promises[i].on)
		}
	}
	return f
}

// promiseOf converts a Promise to the form that package packing needs, with the largest pods first.
// slots is true if the nodes limit the number of their pods; then each pod requests 1 of the
// resource "pods".
func (f *floor) promiseOf(in Promise, slots bool) promise {
	out := promise{on: f.selectClasses(in)}
	total := in.Rest
	for i, p := range in.Pods {
		each := p.Each.Max(nil)
		if slots {
			each = each.Max(quantity.Amounts{corev1.ResourcePods: 1})
		}
		total = total.Add(p.Each.Times(p.Count))
		out.kinds = append(out.kinds, kind{packing.Group{Pod: packing.Pod{Needs: f.columns.Needs(each), On: out.on}, Count: p.Count}, i})
	}
	share := func(k kind) (most float64) {
		for name, amount := range in.Pods[k.from].Each {
			if total[name] > 0 {
				most = max(most, float64(amount)/float64(total[name]))
			}
		}
		return most
	}
	slices.SortStableFunc(out.kinds, func(a, b kind) int { return cmp.Compare(share(b), share(a)) })
	for _, n := range f.columns.Needs(in.Rest) {
		if n.Column >= 0 && f.columns[n.Column] != corev1.ResourcePods {
			out.rest = append(out.rest, n)
		}
	}
	return out
}

// selectClasses returns, for each class of nodes, whether the pods of a promise may run there. It
// returns nil if they may run on all nodes.
func (f *floor) selectClasses(in Promise) []bool {
	on := make([]bool, len(f.classes))
	for class, n := range f.classes {
		on[class] = requirements.HasAll(n.Labels, in.NodeSelector) && requirements.TolerateAll(in.Tolerations, n.Taints)
	}
	if !slices.Contains(on, false) {
		return nil
	}
	return on
}

// countCertain returns how many pods of one kind of a promise are certain to fit, wherever the
// scheduler puts the pods of other promises. It considers only the first upTo promises. Larger pods
// of the same promise are placed first.
func (f *floor) countCertain(of, which, upTo int) int64 {
	p := &f.promises[of]
	target := p.kinds[which]
	f.scratch.CopyFrom(&f.nodes)
	for _, k := range p.kinds[:which] {
		f.scratch.Place(k.Pod, k.Count)
	}
	return max(0, f.scratch.Count(target.Pod)-f.scratch.Harm(target.Pod, f.groupsOfOthers(of, upTo)))
}

// shortOnSelected returns the first resource of the promise's Rest of which too little is free on
// the nodes that the promise selects, after the pods of all promises are placed. It returns the
// zero value if nothing is missing, or if the promise may use all nodes.
func (f *floor) shortOnSelected(of int) (short quantity.Shortage) {
	p := &f.promises[of]
	if p.on == nil {
		return short
	}
	f.scratch.CopyFrom(&f.nodes)
	for i := range f.promises {
		for _, k := range f.promises[i].kinds {
			f.scratch.Place(k.Pod, k.Count)
		}
	}
	for _, n := range p.rest {
		if room := f.scratch.Room(n.Column, p.on); room < n.Amount {
			return quantity.Shortage{Resource: f.columns[n.Column], Need: n.Amount, Have: room}
		}
	}
	return short
}

// groupsOfOthers returns the pods of the first upTo promises except one.
func (f *floor) groupsOfOthers(of, upTo int) []packing.Group {
	var all []packing.Group
	for i := range upTo {
		if i == of {
			continue
		}
		for _, k := range f.promises[i].kinds {
			all = append(all, k.Group)
		}
	}
	return all
}
