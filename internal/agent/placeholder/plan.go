package placeholder

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// View is what there is of reservations, of the pods that use them and of placeholders.
type View struct {
	// Reserved is what is to be kept for each placement that is held by placeholders.
	Reserved     map[string]quantity.Amounts
	Pods         []Pod
	Placeholders []Placeholder
	// Room is what can still be requested on a node, placeholders not counted.
	Room map[string]quantity.Amounts
}

// Pod is one that runs here, or is to run, for a placement.
type Pod struct {
	types.NamespacedName
	Placement string
	Request   quantity.Amounts
	// Node that it is bound to, or else Nominated for.
	Node, Nominated string
	// Stuck is true when the scheduler has found no node for it.
	Stuck bool
}

// Placeholder is a pod that keeps capacity for a placement.
type Placeholder struct {
	Name, Placement string
	Amounts         quantity.Amounts
	// Node that it is bound to, or else Nominated for; without any it keeps nothing yet.
	Node, Nominated string
	// Going is true once it was deleted; its name is taken until it is gone. Spent is true
	// where it has ended by itself, as one does that a node evicts.
	Going, Spent bool
}

// Plan is what to do, in this order: whoever follows on a node is nominated for it before
// anybody gives way there.
type Plan struct {
	Create []Placeholder
	// Nominate pods for nodes.
	Nominate []Nomination
	// Delete placeholders, by name.
	Delete []string
	// Held says of each placement how it stands before that.
	Held map[string]Held
}

// Nomination is of a pod for a node that it shall have room on.
type Nomination struct {
	Pod  types.NamespacedName
	Node string
}

// Held counts the placeholders of a placement.
type Held struct {
	Placeholders, Pending int
	// Short is what the pending ones are to keep, and do not.
	Short quantity.Amounts
}

// Decide keeps for each placement what is reserved and not used: the pods that run for it
// and those that it makes room for are used, placeholders are the rest.
func Decide(v View) Plan {
	v.Placeholders = slices.Clone(v.Placeholders)
	p := planner{View: v, room: map[string]quantity.Amounts{}, used: map[string]quantity.Amounts{}, standing: map[string][]Placeholder{}, left: map[string][]string{}}
	p.Plan.Held = map[string]Held{}
	p.count()
	p.makeRoom()
	for _, name := range slices.Sorted(maps.Keys(p.standing)) {
		if _, held := v.Reserved[name]; !held {
			p.drop(p.standing[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Reserved)) {
		p.keep(name)
	}
	return p.Plan
}

type planner struct {
	View
	Plan
	// room is what is left on a node beside its placeholders and who is nominated.
	room map[string]quantity.Amounts
	// used of each placement, and the placeholders that stand for it.
	used     map[string]quantity.Amounts
	standing map[string][]Placeholder
	// left are the nodes on which placeholders of a placement give way.
	left map[string][]string
}

func (p *planner) count() {
	for node, room := range p.View.Room {
		p.room[node] = room.Clone()
	}
	for _, h := range p.Placeholders {
		if h.Spent && !h.Going {
			p.drop([]Placeholder{h})
		}
		if h.Spent || h.Going {
			continue
		}
		p.standing[h.Placement] = append(p.standing[h.Placement], h)
		held := p.Held[h.Placement]
		held.Placeholders++
		if h.Node == "" {
			held.Pending++
			held.Short = held.Short.Add(h.Amounts)
		}
		p.take(h.place(), h.Amounts)
		p.Held[h.Placement] = held
	}
	for _, all := range p.standing {
		// Those that keep something first.
		slices.SortFunc(all, func(a, b Placeholder) int {
			return cmp.Or(cmp.Compare(bound(b), bound(a)), cmp.Compare(a.Name, b.Name))
		})
	}
	for _, pod := range p.Pods {
		if pod.Node != "" {
			p.used[pod.Placement] = p.used[pod.Placement].Add(pod.Request)
		}
	}
}

// place is where it is, or is to be.
func (h *Placeholder) place() string { return cmp.Or(h.Node, h.Nominated) }

// take leaves a node that is not known alone.
func (p *planner) take(node string, amounts quantity.Amounts) {
	if room, known := p.room[node]; known {
		p.room[node] = room.Sub(amounts)
	}
}

func bound(h Placeholder) int { return min(len(h.Node), 1) }

// makeRoom has placeholders give way to the pods of their own placement that are stuck.
func (p *planner) makeRoom() {
	waiting := slices.DeleteFunc(slices.Clone(p.Pods), func(pod Pod) bool {
		_, held := p.Reserved[pod.Placement]
		return !held || pod.Node != "" || !pod.Stuck && pod.Nominated == ""
	})
	// Who was nominated before keeps that; the order of the others is of no matter, but
	// the same each time.
	slices.SortFunc(waiting, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(min(len(b.Nominated), 1), min(len(a.Nominated), 1)), cmp.Compare(a.String(), b.String()))
	})
	for _, pod := range waiting {
		node, victims, ok := p.placeFor(pod)
		if !ok {
			continue
		}
		p.used[pod.Placement] = p.used[pod.Placement].Add(pod.Request)
		p.take(node, pod.Request)
		p.drop(victims)
		p.standing[pod.Placement] = without(p.standing[pod.Placement], victims)
		if pod.Nominated != node {
			p.Nominate = append(p.Nominate, Nomination{Pod: pod.NamespacedName, Node: node})
		}
	}
}

// placeFor finds the node on which a pod has room with the fewest placeholders less; that
// which it is nominated for comes first.
func (p *planner) placeFor(pod Pod) (node string, victims []Placeholder, ok bool) {
	if pod.Nominated != "" {
		if victims, ok = p.victims(pod, pod.Nominated); ok {
			return pod.Nominated, victims, true
		}
	}
	for _, candidate := range placesOf(p.standing[pod.Placement]) {
		less, fits := p.victims(pod, candidate)
		if fits && (!ok || len(less) < len(victims)) {
			node, victims, ok = candidate, less, true
		}
	}
	return node, victims, ok
}

// placesOf lists nodes of placeholders, sorted.
func placesOf(all []Placeholder) (nodes []string) {
	for _, h := range all {
		if place := h.place(); place != "" {
			nodes = append(nodes, place)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// victims are the placeholders on a node without which a pod has room there; ok is false
// where it would not even without all of its placement's.
func (p *planner) victims(pod Pod, node string) (victims []Placeholder, ok bool) {
	room, known := p.room[node]
	if !known {
		return nil, false
	}
	for _, h := range p.standing[pod.Placement] {
		if _, fits := quantity.Fits(pod.Request, room); fits {
			break
		}
		if h.place() == node {
			victims, room = append(victims, h), room.Add(h.Amounts)
		}
	}
	if _, fits := quantity.Fits(pod.Request, room); !fits {
		return nil, false
	}
	// The first ones may have turned out to be of no use.
	for i := 0; i < len(victims); {
		spared := room.Sub(victims[i].Amounts)
		if _, fits := quantity.Fits(pod.Request, spared); fits {
			room, victims = spared, slices.Delete(victims, i, i+1)
			continue
		}
		i++
	}
	return victims, true
}

// keep brings the placeholders of a placement to what is reserved and not used: parts of
// the same size as long as nothing is used, and one for what remains of them.
func (p *planner) keep(name string) {
	left := kept(p.Reserved[name].Sub(p.used[name]))
	parts, standing := Split(p.Reserved[name]), p.standing[name]
	var stays []Placeholder
	for _, h := range standing {
		i := slices.IndexFunc(parts, h.Amounts.Equal)
		if _, fits := quantity.Fits(h.Amounts, left); i >= 0 && fits {
			parts, left, stays = slices.Delete(parts, i, i+1), left.Sub(h.Amounts), append(stays, h)
		}
	}
	standing = without(standing, stays)
	var missing []quantity.Amounts
	for _, part := range parts {
		if _, fits := quantity.Fits(part, left); fits {
			left, missing = left.Sub(part), append(missing, part)
		}
	}
	if left = kept(left); !left.IsZero() {
		if i := slices.IndexFunc(standing, func(h Placeholder) bool { return h.Amounts.Equal(left) }); i >= 0 {
			standing = slices.Delete(standing, i, i+1)
		} else {
			missing = append(missing, left)
		}
	}
	p.drop(standing)
	for _, amounts := range missing {
		h := Placeholder{Name: p.freeName(name, amounts), Placement: name, Amounts: amounts}
		// What follows one that goes stays on its node.
		for _, node := range p.left[name] {
			if _, fits := quantity.Fits(amounts, p.room[node]); fits {
				h.Nominated = node
				p.take(node, amounts)
				break
			}
		}
		p.Create, p.Placeholders = append(p.Create, h), append(p.Placeholders, h)
	}
}

func (p *planner) drop(all []Placeholder) {
	for _, h := range all {
		p.Delete = append(p.Delete, h.Name)
		if room, known := p.room[h.place()]; known && !h.Spent {
			p.room[h.place()] = room.Add(h.Amounts)
			p.left[h.Placement] = append(p.left[h.Placement], h.place())
		}
	}
}

// freeName is the same as long as a placeholder is not seen: one is not made twice.
func (p *planner) freeName(placement string, amounts quantity.Amounts) string {
	var text strings.Builder
	for _, name := range amounts.Names() {
		fmt.Fprintf(&text, "%s=%d,", name, amounts[name])
	}
	sum := sha256.Sum256([]byte(text.String()))
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%x-%d", placement, sum[:4], i)
		if !slices.ContainsFunc(p.Placeholders, func(h Placeholder) bool { return h.Name == name }) {
			return name
		}
	}
}

func without(all, some []Placeholder) []Placeholder {
	return slices.DeleteFunc(slices.Clone(all), func(h Placeholder) bool {
		return slices.ContainsFunc(some, func(s Placeholder) bool { return s.Name == h.Name })
	})
}
