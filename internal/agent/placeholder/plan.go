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

// View is the state of the reservations, of their pods and of the placeholders.
type View struct {
	// Reserved is the reserved capacity of each placement that placeholders hold.
	Reserved     map[string]quantity.Amounts
	Pods         []Pod
	Placeholders []Placeholder
	// Room is the capacity that pods can still request on a node, without counting
	// placeholders.
	Room map[string]quantity.Amounts
}

// Pod is a pod that runs, or waits to run, for a placement.
type Pod struct {
	types.NamespacedName
	Placement string
	Request   quantity.Amounts
	// Node is where the pod is bound. If it is not bound, Nominated may name a node.
	Node, Nominated string
	// Stuck is true once the scheduler has found no node for the pod.
	Stuck bool
}

// Placeholder is a pod that keeps capacity for a placement.
type Placeholder struct {
	Name, Placement string
	Amounts         quantity.Amounts
	// Node is where the placeholder is bound. If it is not bound, Nominated may name a node;
	// without either, it keeps nothing yet.
	Node, Nominated string
	// Going is true once the placeholder was deleted; its name stays in use until it is gone.
	// Spent is true if it has ended by itself, for example after an eviction by its node.
	Going, Spent bool
}

// Plan lists the actions in the order in which to take them. A successor is nominated for a
// node before a placeholder there is deleted.
type Plan struct {
	Create []Placeholder
	// Nominate lists pods to nominate for nodes.
	Nominate []Nomination
	// Delete lists the names of placeholders to delete.
	Delete []string
	// Held describes each placement before these actions.
	Held map[string]Held
}

// Nomination reserves room on a node for a pod.
type Nomination struct {
	Pod  types.NamespacedName
	Node string
}

// Held counts the placeholders of a placement.
type Held struct {
	Placeholders, Pending int
	// Short is the capacity that the pending placeholders should keep and do not.
	Short quantity.Amounts
}

// Decide plans placeholders for the part of each placement's reserved capacity that is not used.
// Pods that run and pods for which the plan makes room count as use.
func Decide(v View) Plan {
	v.Placeholders = slices.Clone(v.Placeholders)
	p := planner{View: v, room: map[string]quantity.Amounts{}, used: map[string]quantity.Amounts{}, standing: map[string][]Placeholder{}, left: map[string][]string{}}
	p.Plan.Held = map[string]Held{}
	p.countUse()
	p.makeRoom()
	for _, name := range slices.Sorted(maps.Keys(p.standing)) {
		if _, held := v.Reserved[name]; !held {
			p.dropAll(p.standing[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Reserved)) {
		p.adjustPlacement(name)
	}
	return p.Plan
}

type planner struct {
	View
	Plan
	// room is the capacity left on a node after its placeholders and nominated pods.
	room map[string]quantity.Amounts
	// used is the used capacity of each placement, and standing its placeholders.
	used     map[string]quantity.Amounts
	standing map[string][]Placeholder
	// left are the nodes on which placeholders of a placement are deleted.
	left map[string][]string
}

func (p *planner) countUse() {
	for node, room := range p.View.Room {
		p.room[node] = room.Clone()
	}
	for _, h := range p.Placeholders {
		if h.Spent && !h.Going {
			p.dropAll([]Placeholder{h})
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
		p.takeRoom(h.nodeOrNominated(), h.Amounts)
		p.Held[h.Placement] = held
	}
	for _, all := range p.standing {
		// Placeholders that are bound to a node come first.
		slices.SortFunc(all, func(a, b Placeholder) int {
			return cmp.Or(cmp.Compare(boundRank(b), boundRank(a)), cmp.Compare(a.Name, b.Name))
		})
	}
	for _, pod := range p.Pods {
		if pod.Node != "" {
			p.used[pod.Placement] = p.used[pod.Placement].Add(pod.Request)
		}
	}
}

// nodeOrNominated returns the node of the placeholder, or the one it is nominated for.
func (h *Placeholder) nodeOrNominated() string { return cmp.Or(h.Node, h.Nominated) }

// takeRoom subtracts amounts from the room on a node. It ignores unknown nodes.
func (p *planner) takeRoom(node string, amounts quantity.Amounts) {
	if room, known := p.room[node]; known {
		p.room[node] = room.Sub(amounts)
	}
}

func boundRank(h Placeholder) int { return min(len(h.Node), 1) }

// makeRoom deletes placeholders in favour of stuck pods of their own placement.
func (p *planner) makeRoom() {
	waiting := slices.DeleteFunc(slices.Clone(p.Pods), func(pod Pod) bool {
		_, held := p.Reserved[pod.Placement]
		return !held || pod.Node != "" || !pod.Stuck && pod.Nominated == ""
	})
	// Pods nominated before keep their node. The order of the others is arbitrary but stable.
	slices.SortFunc(waiting, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(min(len(b.Nominated), 1), min(len(a.Nominated), 1)), cmp.Compare(a.String(), b.String()))
	})
	for _, pod := range waiting {
		node, victims, ok := p.placeFor(pod)
		if !ok {
			continue
		}
		p.used[pod.Placement] = p.used[pod.Placement].Add(pod.Request)
		p.takeRoom(node, pod.Request)
		p.dropAll(victims)
		p.standing[pod.Placement] = withoutSome(p.standing[pod.Placement], victims)
		if pod.Nominated != node {
			p.Nominate = append(p.Nominate, Nomination{Pod: pod.NamespacedName, Node: node})
		}
	}
}

// placeFor returns the node where a pod fits after the fewest deletions. It prefers the node
// for which the pod is already nominated.
func (p *planner) placeFor(pod Pod) (node string, victims []Placeholder, ok bool) {
	if pod.Nominated != "" {
		if victims, ok = p.findVictims(pod, pod.Nominated); ok {
			return pod.Nominated, victims, true
		}
	}
	for _, candidate := range placesOf(p.standing[pod.Placement]) {
		less, fits := p.findVictims(pod, candidate)
		if fits && (!ok || len(less) < len(victims)) {
			node, victims, ok = candidate, less, true
		}
	}
	return node, victims, ok
}

// placesOf returns the nodes of placeholders, sorted.
func placesOf(all []Placeholder) (nodes []string) {
	for _, h := range all {
		if place := h.nodeOrNominated(); place != "" {
			nodes = append(nodes, place)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// findVictims returns the placeholders on a node that must go for a pod to fit there. ok is false
// if deleting all placeholders of its placement would not suffice.
func (p *planner) findVictims(pod Pod, node string) (victims []Placeholder, ok bool) {
	room, known := p.room[node]
	if !known {
		return nil, false
	}
	for _, h := range p.standing[pod.Placement] {
		if _, fits := quantity.Fits(pod.Request, room); fits {
			break
		}
		if h.nodeOrNominated() == node {
			victims, room = append(victims, h), room.Add(h.Amounts)
		}
	}
	if _, fits := quantity.Fits(pod.Request, room); !fits {
		return nil, false
	}
	// Spare early victims that turned out to be unnecessary.
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

// adjustPlacement adjusts the placeholders of a placement to the unused reserved capacity. While nothing
// is used, all parts have the same size. Later, one placeholder keeps the remainder.
func (p *planner) adjustPlacement(name string) {
	left := keepableAmounts(p.Reserved[name].Sub(p.used[name]))
	parts, standing := Split(p.Reserved[name]), p.standing[name]
	var stays []Placeholder
	for _, h := range standing {
		i := slices.IndexFunc(parts, h.Amounts.Equal)
		if _, fits := quantity.Fits(h.Amounts, left); i >= 0 && fits {
			parts, left, stays = slices.Delete(parts, i, i+1), left.Sub(h.Amounts), append(stays, h)
		}
	}
	standing = withoutSome(standing, stays)
	var missing []quantity.Amounts
	for _, part := range parts {
		if _, fits := quantity.Fits(part, left); fits {
			left, missing = left.Sub(part), append(missing, part)
		}
	}
	if left = keepableAmounts(left); !left.IsZero() {
		if i := slices.IndexFunc(standing, func(h Placeholder) bool { return h.Amounts.Equal(left) }); i >= 0 {
			standing = slices.Delete(standing, i, i+1)
		} else {
			missing = append(missing, left)
		}
	}
	p.dropAll(standing)
	for _, amounts := range missing {
		h := Placeholder{Name: p.freeName(name, amounts), Placement: name, Amounts: amounts}
		// A replacement stays on the node of the placeholder that it replaces.
		for _, node := range p.left[name] {
			if _, fits := quantity.Fits(amounts, p.room[node]); fits {
				h.Nominated = node
				p.takeRoom(node, amounts)
				break
			}
		}
		p.Create, p.Placeholders = append(p.Create, h), append(p.Placeholders, h)
	}
}

func (p *planner) dropAll(all []Placeholder) {
	for _, h := range all {
		p.Delete = append(p.Delete, h.Name)
		if room, known := p.room[h.nodeOrNominated()]; known && !h.Spent {
			p.room[h.nodeOrNominated()] = room.Add(h.Amounts)
			p.left[h.Placement] = append(p.left[h.Placement], h.nodeOrNominated())
		}
	}
}

// freeName returns the same name until the placeholder appears in the View, so a repeated plan
// does not create it twice.
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

func withoutSome(all, some []Placeholder) []Placeholder {
	return slices.DeleteFunc(slices.Clone(all), func(h Placeholder) bool {
		return slices.ContainsFunc(some, func(s Placeholder) bool { return s.Name == h.Name })
	})
}
