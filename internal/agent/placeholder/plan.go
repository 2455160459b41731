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

// View is the input of Decide: placements, their pods and the placeholders.
type View struct {
	// Reserved is the reserved capacity of each placement that placeholders must keep, by name.
	Reserved map[string]quantity.Amounts
	// Parts holds, for a placement that awaits new nodes, the amounts of its placeholders, which add up to
	// the Keepable part of what is reserved. Other placements have none, and their placeholders have the sizes of Split.
	Parts        map[string][]quantity.Amounts
	Pods         []Pod
	Placeholders []Placeholder
	// Room is, by node, how much pods can still request there. Placeholders count as if they
	// requested nothing.
	Room map[string]quantity.Amounts
}

// Pod is a pod that runs, or waits to run, for a placement.
type Pod struct {
	types.NamespacedName
	Placement string
	Request   quantity.Amounts
	// Node is the node to which the pod is bound, "" if it is not bound. Nominated is the node for
	// which an unbound pod is nominated, "" if there is none.
	Node, Nominated string
	// Stuck is true if the scheduler has found no node for the pod.
	Stuck bool
}

// Placeholder is a pod that keeps capacity for a placement.
type Placeholder struct {
	Name, Placement string
	Amounts         quantity.Amounts
	// Node and Nominated have the same meaning as in Pod. A placeholder that has neither keeps no
	// capacity yet.
	Node, Nominated string
	// Going is true if the placeholder is being deleted. Its name cannot be used again until it is
	// gone. Spent is true if the placeholder has ended without being deleted, for example because
	// its node evicted it.
	Going, Spent bool
}

// Plan lists actions in the order in which they must be taken. A new placeholder or pod must be
// nominated for a node before another placeholder there is deleted to make room for it.
type Plan struct {
	Create []Placeholder
	// Nominate lists the pods that get a nominated node.
	Nominate []Nomination
	// Delete lists the names of placeholders to delete.
	Delete []string
	// Held describes, for each placement, how its capacity was kept before these actions.
	Held map[string]Held
}

// Nomination names a node on which the scheduler keeps room for a pod.
type Nomination struct {
	Pod  types.NamespacedName
	Node string
}

// Held says how many placeholders a placement has, and how many of them have no node (Pending).
type Held struct {
	Placeholders, Pending int
	// Short is the sum of the amounts of the pending placeholders.
	Short quantity.Amounts
}

// Decide plans the placeholders for all placements. The placeholders keep the reserved capacity,
// minus the requests of pods that have a node and of pods for which the plan makes room.
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
	// room is Room minus the amounts of the placeholders and the requests of the pods for which the
	// plan makes room.
	room map[string]quantity.Amounts
	// used is the used capacity of each placement. standing holds, for each placement, the
	// placeholders that the plan has not deleted so far.
	used     map[string]quantity.Amounts
	standing map[string][]Placeholder
	// left lists, for each placement, the nodes on which placeholders are deleted.
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
		// Placeholders with a node come first.
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

// nodeOrNominated returns the placeholder's node, or else the node for which it is nominated, or
// "".
func (h *Placeholder) nodeOrNominated() string { return cmp.Or(h.Node, h.Nominated) }

// takeRoom subtracts amounts from the room on a node. It does nothing for an unknown node.
func (p *planner) takeRoom(node string, amounts quantity.Amounts) {
	if room, known := p.room[node]; known {
		p.room[node] = room.Sub(amounts)
	}
}

func boundRank(h Placeholder) int { return min(len(h.Node), 1) }

// makeRoom finds nodes for pods that the scheduler could not place or has only nominated, and
// deletes placeholders of the same placement there.
func (p *planner) makeRoom() {
	waiting := slices.DeleteFunc(slices.Clone(p.Pods), func(pod Pod) bool {
		_, held := p.Reserved[pod.Placement]
		return !held || pod.Node != "" || !pod.Stuck && pod.Nominated == ""
	})
	// Nominated pods come first, so that they keep their node. The order is otherwise arbitrary, but
	// always the same.
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

// placeFor returns the node on which the pod fits after deleting the fewest placeholders, and
// these placeholders. If the pod fits on the node for which it is nominated, it stays there.
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

// placesOf returns the nodes on which the given placeholders are, or for which they are nominated,
// sorted and without duplicates.
func placesOf(all []Placeholder) (nodes []string) {
	for _, h := range all {
		if place := h.nodeOrNominated(); place != "" {
			nodes = append(nodes, place)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// findVictims returns the placeholders of the pod's placement that must be deleted on a node so
// that the pod fits there. ok is false if the pod would not fit even after deleting all of them.
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
	// The pod may fit without some of the earlier victims, because later ones were added. Spare
	// those earlier victims.
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

// adjustPlacement plans the placeholders of one placement, so that they keep what is reserved and
// not used. It keeps existing placeholders first and then creates missing ones, in the sizes that
// Split returns. If pods use some of the reserved amounts, placeholders of these sizes do not
// keep exactly what is left. One more placeholder then keeps the difference.
func (p *planner) adjustPlacement(name string) {
	left := Keepable(p.Reserved[name].Sub(p.used[name]))
	parts, standing := slices.Clone(p.Parts[name]), p.standing[name]
	if parts == nil {
		parts = Split(p.Reserved[name])
	}
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
	if left = Keepable(left); !left.IsZero() {
		if i := slices.IndexFunc(standing, func(h Placeholder) bool { return h.Amounts.Equal(left) }); i >= 0 {
			standing = slices.Delete(standing, i, i+1)
		} else {
			missing = append(missing, left)
		}
	}
	p.dropAll(standing)
	for _, amounts := range missing {
		h := Placeholder{Name: p.freeName(name, amounts), Placement: name, Amounts: amounts}
		// Nominate the new placeholder for a node on which another one of this placement is
		// deleted, so that the capacity on this node stays reserved.
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

// freeName returns an unused name for a placeholder. Until the placeholder appears in the View,
// it returns the same name again, so that carrying out a plan twice does not create it twice.
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
