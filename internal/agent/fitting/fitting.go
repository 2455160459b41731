// Package fitting decides whether the pods of a new placement will find nodes here, next to the
// pods that were promised to other placements and do not run yet.
//
// The agent does not know in which order these pods will start, nor whether the scheduler packs or
// spreads them. It therefore assumes the worst case: all other pods start first, on the nodes where
// they are most in the way, among them those of other sizes of the same placement. A pod that fits
// even then is certain to fit. A new placement is accepted if all its pods are certain to fit, and
// if all promised pods that were certain to fit before still are.
//
// A placement may have been promised amounts instead of pods of known sizes, or in addition to them.
// These amounts may become any number of pods that are as small as one unit of each resource. Such
// pods are not certain to fit, but they must leave the room of promised pods alone. If they may run
// only on some nodes, the total that is free on these nodes must be large enough.
//
// Check counts the slots for pods that promised pods and the amount "pods" take. It does not count
// those of the default number of pods, which apply if amounts without "pods" are promised: pods of
// usual sizes use up other resources first.
package fitting

import (
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
// running (left), and the amounts that are kept beyond these and the running pods (rest). A running
// pod takes the place of the smallest promised pod that is at least as large, unless it is smaller
// and the placement keeps enough for it and all promised pods.
func Unused(kept quantity.Amounts, promised []Pods, running []quantity.Amounts) (left []Pods, rest quantity.Amounts) {
	slot := quantity.Amounts{}
	if _, limited := kept[corev1.ResourcePods]; limited {
		slot[corev1.ResourcePods] = 1
	}
	left = slices.Clone(promised)
	rest = kept.Max(nil)
	need := quantity.Amounts{}
	for _, p := range left {
		need = need.Add(p.Each.Max(slot).Times(p.Count))
	}
	for _, pod := range running {
		rest = rest.Sub(pod)
		best := -1
		for i := range left {
			if left[i].Count > 0 && isCovered(left[i].Each, pod) && (best < 0 || isCovered(left[best].Each, left[i].Each)) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		if _, fits := quantity.Fits(need, rest); !fits || isCovered(pod, left[best].Each) {
			left[best].Count--
			need = need.Sub(left[best].Each.Max(slot))
		}
	}
	for i := range left {
		// The rest may be too small for all promised pods that are left. This happens if a running pod
		// matched none of them, or if the kept amounts were reduced.
		left[i].Count = min(left[i].Count, timesInto(left[i].Each.Max(slot), rest))
		rest = rest.Sub(left[i].Each.Max(slot).Times(left[i].Count))
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
	// the zero value, the other fields are set.
	Short quantity.Shortage
	// Pods are empty if the placement was promised amounts only.
	Pods
	// Fit is how many of the Pods are certain to fit. If it equals Count, the placement fits, but only
	// in room that pods promised to others need.
	Fit int64
}

// Message explains the misfit to the consumer.
func (m *Misfit) Message() string {
	if s := m.Short; s.Resource != "" {
		return fmt.Sprintf("requested %s of %s, but the nodes that the request selects and tolerates have only %s free, next to what is promised to others",
			quantity.Format(s.Resource, s.Need), s.Resource, quantity.Format(s.Resource, s.Have))
	}
	if m.Count == 0 {
		return "the amounts are free here, but small pods could take room that pods promised to others need: request podShapes, which say how large the pods are"
	}
	if m.Fit >= m.Count {
		return fmt.Sprintf("%d pods of %s fit here, but only on nodes that pods promised to others need", m.Count, formatAmounts(m.Each))
	}
	return fmt.Sprintf("of %d pods of %s only %d fit on the nodes here, if other pods of the request and those promised to others start first", m.Count, formatAmounts(m.Each), m.Fit)
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
	if short := f.shortOnSelected(); short.Resource != "" {
		return &Misfit{Short: short}
	}
	with, before := f.crowd(true), f.crowd(false)
	for i, s := range f.sizes {
		certain := f.countCertain(with, i)
		switch {
		case certain >= s.all:
		case s.mine > 0:
			return &Misfit{Pods: Pods{s.mine, s.each}, Fit: max(0, certain-(s.all-s.mine))}
		case certain < f.countCertain(before, i):
			first := f.sizes[0]
			return &Misfit{Pods: Pods{first.mine, first.each}, Fit: first.mine}
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
	classes []*Node
	// sizes holds the promised pods, and loose the amounts that are promised without pods, as pods of
	// one unit of one resource. The ones of the new placement come first.
	sizes, loose []size
}

// size is pods of one size with the same requirements on nodes: how many are promised (all), and how
// many of these to the new placement (mine).
type size struct {
	packing.Pod
	each      quantity.Amounts
	all, mine int64
}

func newFloor(nodes []Node, others []Promise, wanted Promise) *floor {
	f := &floor{}
	for i := range nodes {
		f.columns.Name(nodes[i].Free)
	}
	f.nodes.Reset(len(f.columns))
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
	known := map[string]int{}
	f.addPromise(known, wanted)
	for _, list := range [][]size{f.sizes, f.loose} {
		for i := range list {
			list[i].mine = list[i].all
		}
	}
	for _, p := range others {
		f.addPromise(known, p)
	}
	return f
}

// addPromise adds a promise to sizes and loose. known maps what identifies a size to its index. If
// the nodes limit the number of their pods, each pod requests 1 of the resource "pods".
func (f *floor) addPromise(known map[string]int, p Promise) {
	on := f.selectClasses(p)
	add := func(list *[]size, count int64, each quantity.Amounts, needs []packing.Need) {
		key := fmt.Sprint(list == &f.loose, needs, on)
		at, found := known[key]
		if !found {
			at = len(*list)
			known[key] = at
			*list = append(*list, size{Pod: packing.Pod{Needs: needs, On: on}, each: each})
		}
		(*list)[at].all += count
	}
	for _, pods := range p.Pods {
		each := pods.Each
		if f.columns.Find(corev1.ResourcePods) >= 0 {
			each = each.Max(quantity.Amounts{corev1.ResourcePods: 1})
		}
		add(&f.sizes, pods.Count, pods.Each, f.columns.Needs(each))
	}
	for _, need := range f.columns.Needs(p.Rest) {
		if need.Column >= 0 {
			add(&f.loose, need.Amount, nil, []packing.Need{{Column: need.Column, Amount: 1}})
		}
	}
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

// crowd holds the pods that may start, with the indexes of sizes and loose.
type crowd struct{ pods, loose []packing.Group }

// crowd returns the pods of all placements, or those of all but the new one.
func (f *floor) crowd(mine bool) (c crowd) {
	groups := func(list []size) []packing.Group {
		out := make([]packing.Group, len(list))
		for i, s := range list {
			out[i] = packing.Group{Pod: s.Pod, Count: s.all}
			if !mine {
				out[i].Count -= s.mine
			}
		}
		return out
	}
	return crowd{groups(f.sizes), groups(f.loose)}
}

// countCertain returns how many pods of one size are certain to fit, wherever the scheduler puts all
// others of the crowd. Pods of the size itself need no bound: each takes exactly one place.
func (f *floor) countCertain(c crowd, of int) int64 {
	target := c.pods[of]
	c.pods[of].Count = 0
	harm := f.nodes.Harm(target.Pod, c.pods, c.loose)
	c.pods[of].Count = target.Count
	return f.nodes.Count(target.Pod) - harm
}

// shortOnSelected returns the first resource of the new placement's Rest of which too little is free
// on the nodes that the placement selects, after all pods and the Rest of others are placed, the
// Rest on the nodes with the most room, as the broker does. It returns the zero value if nothing is
// missing, or if the placement may use all nodes.
func (f *floor) shortOnSelected() (short quantity.Shortage) {
	if len(f.loose) == 0 || f.loose[0].mine == 0 || f.loose[0].On == nil {
		return short
	}
	var left packing.Nodes
	left.CopyFrom(&f.nodes)
	for _, s := range f.loose {
		left.TakeRoomiest(s.Needs[0].Column, s.all-s.mine, s.On)
	}
	for _, s := range f.sizes {
		left.Place(s.Pod, s.all)
	}
	for _, s := range f.loose {
		if column := s.Needs[0].Column; s.mine > left.Room(column, s.On) {
			return quantity.Shortage{Resource: f.columns[column], Need: s.mine, Have: left.Room(column, s.On)}
		}
	}
	return short
}
