// Package fitting decides whether the pods of a placement find nodes here, next to the pods that
// other placements were promised and do not run yet.
//
// The agent does not know in which order these pods will start, nor whether the scheduler packs
// or spreads them. It therefore lets every promise meet the most unkind positions of the others'
// pods. A placement is accepted if its pods fit nevertheless, and if it does not take this
// certainty from a promise that has it.
//
// Of a promise without pod shapes only amounts are known. They are taken from the nodes with the
// most room, as the broker does. Where its pods may run on some nodes only, the sum of what is free
// on these must suffice.
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

// Node is a number of nodes with the same labels and free amounts.
type Node struct {
	Count  int64
	Free   quantity.Amounts
	Labels map[string]string
	// Taints are the offered ones.
	Taints []brokerv1alpha1.Taint
}

// Pods are a number of pods of one size.
type Pods struct {
	Count int64
	Each  quantity.Amounts
}

// Promise is the part of a placement that does not run yet.
type Promise struct {
	Pods []Pods
	// Rest are the amounts besides Pods.
	Rest quantity.Amounts
	// NodeSelector are the labels of the nodes that the pods may run on.
	NodeSelector map[string]string
	Tolerations  []brokerv1alpha1.Toleration
}

// Unused returns the part of a placement that does not run yet. Each running pod stands for one
// of the smallest pods promised that are not smaller than it.
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
		// Pods that match no shape, and reductions, leave less for those that do.
		left[i].Count = min(left[i].Count, timesInto(left[i].Each, rest))
		rest = rest.Sub(left[i].Each.Times(left[i].Count))
	}
	return slices.DeleteFunc(left, func(p Pods) bool { return p.Count == 0 }), rest.Max(nil)
}

// isCovered reports whether a promised pod of the given size is at least as large as pod. It ignores
// the resource pods: every pod counts as one, even if its size does not name that resource.
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

// Misfit says which pods or amounts do not fit.
type Misfit struct {
	// Short is set if amounts do not fit on the nodes where the pods may run.
	Short quantity.Shortage
	Pods
	// Fit is how many of them do. It is Count if they fit themselves, but only on nodes that the
	// pods of other placements need.
	Fit int64
}

// Message is a sentence for the consumer.
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
// other promises; nil if all fit. It leaves amounts to the caller that may be on any node.
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

// floor is the nodes and the promises in columns.
type floor struct {
	columns map[corev1.ResourceName]int32
	// names are the resources by column.
	names []corev1.ResourceName
	nodes packing.Nodes
	// classes are nodes of which each has other labels or taints.
	classes  []*Node
	promises []promise
	// scratch is reused.
	scratch packing.Nodes
}

type promise struct {
	kinds []kind
	rest  []packing.Need
	on    []bool
}

// kind is one size of pods of a promise, from is its index there.
type kind struct {
	packing.Group
	from int
}

func newFloor(nodes []Node, others []Promise, wanted Promise) *floor {
	f := &floor{columns: map[corev1.ResourceName]int32{}}
	for i := range nodes {
		f.nameAll(nodes[i].Free)
	}
	f.nodes.Reset(len(f.names))
	_, slots := f.columns[corev1.ResourcePods]
	classes := map[string]int32{}
	for i := range nodes {
		key := fmt.Sprint(nodes[i].Labels, nodes[i].Taints)
		class, known := classes[key]
		if !known {
			class = int32(len(f.classes))
			classes[key] = class
			f.classes = append(f.classes, &nodes[i])
		}
		free := make([]int64, len(f.names))
		for c, name := range f.names {
			free[c] = max(nodes[i].Free[name], 0)
		}
		f.nodes.Add(nodes[i].Count, free, class)
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

func (f *floor) nameAll(free quantity.Amounts) {
	for name := range free {
		if _, known := f.columns[name]; !known {
			f.columns[name] = int32(len(f.names))
			f.names = append(f.names, name)
		}
	}
}

// promiseOf sorts the pods by size, the largest first. On nodes that limit their pods, each pod
// takes a slot.
func (f *floor) promiseOf(in Promise, slots bool) promise {
	out := promise{on: f.selectClasses(in)}
	total := in.Rest
	for i, p := range in.Pods {
		each := p.Each.Max(nil)
		if slots {
			each = each.Max(quantity.Amounts{corev1.ResourcePods: 1})
		}
		total = total.Add(p.Each.Times(p.Count))
		out.kinds = append(out.kinds, kind{packing.Group{Pod: packing.Pod{Needs: f.needsOf(each), On: out.on}, Count: p.Count}, i})
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
	for _, n := range f.needsOf(in.Rest) {
		if n.Column >= 0 && f.names[n.Column] != corev1.ResourcePods {
			out.rest = append(out.rest, n)
		}
	}
	return out
}

// selectClasses returns the classes of nodes that the pods of a promise may run on; nil for all.
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

func (f *floor) needsOf(amounts quantity.Amounts) (out []packing.Need) {
	for _, name := range amounts.Names() {
		if amounts[name] <= 0 {
			continue
		}
		column, known := f.columns[name]
		if !known {
			column = -1
		}
		out = append(out, packing.Need{Column: column, Amount: amounts[name]})
	}
	return out
}

// countCertain returns how many pods of a kind of a promise fit wherever the scheduler puts the pods
// of the other ones of the first upTo promises. Pods of its own promise are placed in the
// kindest order, the largest first.
func (f *floor) countCertain(of, which, upTo int) int64 {
	p := &f.promises[of]
	target := p.kinds[which]
	f.scratch.CopyFrom(&f.nodes)
	for _, k := range p.kinds[:which] {
		f.scratch.Place(k.Pod, k.Count)
	}
	return max(0, f.scratch.Count(target.Pod)-f.scratch.Harm(target.Pod, f.groupsOfOthers(of, upTo)))
}

// shortOnSelected returns which amounts of a promise besides its pods are not free on the nodes that
// it selects, with the pods of all promises placed first.
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
			return quantity.Shortage{Resource: f.names[n.Column], Need: n.Amount, Have: room}
		}
	}
	return short
}

// groupsOfOthers returns the pods of the other promises.
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
