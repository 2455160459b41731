package placeholder

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const gib = 1 << 30

func amounts(cpu, memory int64) quantity.Amounts {
	return quantity.Amounts{"cpu": cpu, "memory": memory}
}

func TestSplitPartsAreSmallAndAddUp(t *testing.T) {
	tests := map[string]struct {
		reserved quantity.Amounts
		parts    int
	}{
		"nothing":                         {quantity.Amounts{}, 0},
		"pods alone cannot be kept":       {quantity.Amounts{"pods": 10}, 0},
		"less than a core":                {amounts(500, gib), 1},
		"a part for each core":            {amounts(3500, gib), 4},
		"a part for each 4 GiB":           {amounts(1000, 9*gib), 3},
		"a part for each device":          {quantity.Amounts{"cpu": 1000, "nvidia.com/gpu": 3}, 3},
		"storage is no reason for more":   {quantity.Amounts{"cpu": 1000, "ephemeral-storage": 500 * gib}, 1},
		"what is large has larger parts":  {amounts(128000, 512*gib), mostParts},
		"what cannot be divided is shown": {quantity.Amounts{"cpu": 7, "nvidia.com/gpu": 5}, 5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			split := Split(test.reserved)
			sum := quantity.Amounts{}
			for _, part := range split {
				sum = sum.Add(part)
			}
			if len(split) != test.parts || !sum.Equal(Keepable(test.reserved)) {
				t.Errorf("got %d parts that add up to %v, want %d that add up to %v", len(split), sum, test.parts, Keepable(test.reserved))
			}
		})
	}
}

// standing returns placeholders of res-a-1 with one core and 2 GiB each, on the given nodes.
func standing(nodes ...string) (all []Placeholder) {
	for _, node := range nodes {
		name := (&planner{View: View{Placeholders: all}}).freeName("res-a-1", amounts(1000, 2*gib))
		all = append(all, Placeholder{Name: name, Placement: "res-a-1", Amounts: amounts(1000, 2*gib), Node: node})
	}
	return all
}

func TestPlaceholdersAreWhatIsReservedAndNotUsed(t *testing.T) {
	four := map[string]quantity.Amounts{"res-a-1": amounts(4000, 8*gib)}
	all := standing("n1", "n1", "n2", "n2")
	pod := func(cpu, memory int64, change func(*Pod)) []Pod {
		p := Pod{NamespacedName: types.NamespacedName{Namespace: "demo-rome", Name: "web"}, Placement: "res-a-1", Request: amounts(cpu, memory)}
		change(&p)
		return []Pod{p}
	}
	full := map[string]quantity.Amounts{"n1": amounts(2000, 4*gib), "n2": amounts(2000, 4*gib)}
	rest := Placeholder{Name: "res-a-1-rest", Placement: "res-a-1", Amounts: amounts(500, gib)}
	tests := map[string]struct {
		view     View
		nominate []string
		remove   []string
		create   []quantity.Amounts
	}{
		"a new reservation is kept in parts": {
			view:   View{Reserved: four},
			create: []quantity.Amounts{amounts(1000, 2*gib), amounts(1000, 2*gib), amounts(1000, 2*gib), amounts(1000, 2*gib)},
		},
		"what is kept stays": {view: View{Reserved: four, Placeholders: all}},
		"a pod that runs takes the place of what it uses, and what remains of a part is kept": {
			view:   View{Reserved: four, Placeholders: all, Pods: pod(500, gib, func(p *Pod) { p.Node = "n3" })},
			remove: []string{all[3].Name}, create: []quantity.Amounts{amounts(500, gib)},
		},
		"what remains of a part is not made twice": {
			view: View{Reserved: four, Placeholders: append(standing("n1", "n1", "n2"), rest), Pods: pod(500, gib, func(p *Pod) { p.Node = "n3" })},
		},
		"a pod that goes is replaced": {
			view:   View{Reserved: four, Placeholders: append(standing("n1", "n1", "n2"), rest)},
			remove: []string{rest.Name}, create: []quantity.Amounts{amounts(1000, 2*gib)},
		},
		"those that keep nothing yet go first": {
			view:   View{Reserved: four, Placeholders: standing("n1", "", "n2", "n2"), Pods: pod(1000, 2*gib, func(p *Pod) { p.Node = "n3" })},
			remove: []string{all[1].Name},
		},
		"what is not held any more goes": {
			view: View{Placeholders: all[:1]}, remove: []string{all[0].Name},
		},
		"one that is going is not counted": {
			view:   View{Reserved: map[string]quantity.Amounts{"res-a-1": amounts(1000, 2*gib)}, Placeholders: []Placeholder{{Name: all[0].Name, Placement: "res-a-1", Amounts: amounts(1000, 2*gib), Node: "n1", Going: true}}},
			create: []quantity.Amounts{amounts(1000, 2*gib)},
		},
		"one that a node evicted is replaced by another": {
			view:   View{Reserved: map[string]quantity.Amounts{"res-a-1": amounts(1000, 2*gib)}, Placeholders: []Placeholder{{Name: all[0].Name, Placement: "res-a-1", Amounts: amounts(1000, 2*gib), Node: "n1", Spent: true}}},
			remove: []string{all[0].Name}, create: []quantity.Amounts{amounts(1000, 2*gib)},
		},
		"more than is reserved leaves nothing to keep": {
			view:   View{Reserved: four, Placeholders: all[:1], Pods: pod(5000, gib, func(p *Pod) { p.Node = "n3" })},
			remove: []string{all[0].Name}, create: []quantity.Amounts{{"memory": 7 * gib}},
		},
		"a pod that only just came has nobody give way": {
			view: View{Reserved: four, Placeholders: all, Room: full, Pods: pod(500, gib, func(*Pod) {})},
		},
		"a pod that is stuck has one give way, and is nominated for its node": {
			view:     View{Reserved: four, Placeholders: all, Room: full, Pods: pod(500, gib, func(p *Pod) { p.Stuck = true })},
			nominate: []string{"n1"}, remove: []string{all[0].Name}, create: []quantity.Amounts{amounts(500, gib)},
		},
		"a larger one has two of one node give way": {
			view:     View{Reserved: four, Placeholders: all, Room: full, Pods: pod(2000, 2*gib, func(p *Pod) { p.Stuck = true })},
			nominate: []string{"n1"}, remove: []string{all[0].Name, all[1].Name},
			create: []quantity.Amounts{{"memory": 2 * gib}},
		},
		"a node with room of its own needs fewer to give way": {
			view: View{Reserved: four, Placeholders: all, Pods: pod(2000, 2*gib, func(p *Pod) { p.Stuck = true }),
				Room: map[string]quantity.Amounts{"n1": amounts(2000, 4*gib), "n2": amounts(3500, 4*gib)}},
			nominate: []string{"n2"}, remove: []string{all[2].Name, all[3].Name},
			create: []quantity.Amounts{{"memory": 2 * gib}},
		},
		"who is nominated has room made there alone": {
			view:   View{Reserved: four, Placeholders: all, Room: full, Pods: pod(1000, 2*gib, func(p *Pod) { p.Stuck, p.Nominated = true, "n2" })},
			remove: []string{all[2].Name},
		},
		"a pod that no node has room for waits, and nothing is given up": {
			view: View{Reserved: four, Placeholders: all, Room: full, Pods: pod(3000, gib, func(p *Pod) { p.Stuck = true })},
		},
		"another reservation's placeholders do not give way": {
			view: View{Reserved: map[string]quantity.Amounts{"res-a-1": amounts(4000, 8*gib), "res-b-1": {}}, Placeholders: all, Room: full,
				Pods: pod(500, gib, func(p *Pod) { p.Stuck, p.Placement = true, "res-b-1" })},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Decide(test.view)
			var nominated []string
			for _, n := range got.Nominate {
				nominated = append(nominated, n.Node)
			}
			var created []quantity.Amounts
			for _, h := range got.Create {
				created = append(created, h.Amounts)
			}
			if diff := cmp.Diff(test.nominate, nominated); diff != "" {
				t.Errorf("nominated for (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.remove, got.Delete); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.create, created); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeldCountsPlaceholdersWithoutRoom(t *testing.T) {
	view := View{Reserved: map[string]quantity.Amounts{"res-a-1": amounts(3000, 6*gib)}, Placeholders: standing("n1", "", "")}
	want := map[string]Held{"res-a-1": {Placeholders: 3, Pending: 2, Short: amounts(2000, 4*gib)}}
	if diff := cmp.Diff(want, Decide(view).Held); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

// cluster simulates nodes, a scheduler and own pods that request all free capacity.
type cluster struct {
	t    *rapid.T
	view View
	// size is the capacity of each node, own the part used by the cluster's own pods.
	size, own map[string]quantity.Amounts
	// greedy makes own pods take all free capacity before any other pod.
	greedy bool
}

func (c *cluster) nodes() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for n := range c.size {
			if !yield(n) {
				return
			}
		}
	})
}

// free returns the capacity of a node that is neither used nor kept for a nominated pod other
// than who.
func (c *cluster) free(node string, who types.NamespacedName) quantity.Amounts {
	free := c.size[node].Sub(c.own[node])
	for _, h := range c.view.Placeholders {
		if h.Name != who.Name && h.nodeOrNominated() == node {
			free = free.Sub(h.Amounts)
		}
	}
	for _, p := range c.view.Pods {
		if p.NamespacedName != who && (p.Node == node || p.Node == "" && p.Nominated == node) {
			free = free.Sub(p.Request)
		}
	}
	return free
}

func (c *cluster) grab() {
	if !c.greedy {
		return
	}
	for _, node := range c.nodes() {
		c.own[node] = c.own[node].Add(c.free(node, types.NamespacedName{}).Max(nil))
	}
}

func (c *cluster) schedule() {
	for i := range c.view.Pods {
		p := &c.view.Pods[i]
		for _, node := range c.nodes() {
			if _, fits := quantity.Fits(p.Request, c.free(node, p.NamespacedName)); p.Node == "" && fits {
				p.Node = node
			}
		}
		p.Stuck = p.Node == ""
	}
	for i := range c.view.Placeholders {
		h := &c.view.Placeholders[i]
		for _, node := range c.nodes() {
			may := h.Nominated == "" || h.Nominated == node
			if _, fits := quantity.Fits(h.Amounts, c.free(node, types.NamespacedName{Name: h.Name})); h.Node == "" && may && fits {
				h.Node = node
			}
		}
	}
}

func (c *cluster) look() Plan {
	c.view.Room = map[string]quantity.Amounts{}
	for _, node := range c.nodes() {
		room := c.size[node].Sub(c.own[node])
		for _, p := range c.view.Pods {
			if p.Node == node {
				room = room.Sub(p.Request)
			}
		}
		c.view.Room[node] = room
	}
	return Decide(c.view)
}

func (c *cluster) apply(plan Plan) {
	for _, h := range plan.Create {
		if slices.ContainsFunc(c.view.Placeholders, func(o Placeholder) bool { return o.Name == h.Name }) {
			c.t.Fatalf("two placeholders are called %s", h.Name)
		}
		c.view.Placeholders = append(c.view.Placeholders, h)
	}
	for _, n := range plan.Nominate {
		for i := range c.view.Pods {
			if c.view.Pods[i].NamespacedName == n.Pod {
				c.view.Pods[i].Nominated = n.Node
			}
		}
	}
	c.grab()
	for _, name := range plan.Delete {
		c.view.Placeholders = slices.DeleteFunc(c.view.Placeholders, func(h Placeholder) bool { return h.Name == name })
		c.grab()
	}
}

// settle runs the scheduler and the agent until nothing changes.
func (c *cluster) settle() {
	for range 50 {
		c.schedule()
		plan := c.look()
		c.wantAllKept(plan)
		if len(plan.Nominate)+len(plan.Delete)+len(plan.Create) == 0 {
			return
		}
		c.apply(plan)
	}
	c.t.Fatalf("never done: %+v", c.look())
}

// wantAllKept checks that after a plan the placeholders, the running pods and the pods with a
// nomination add up to the reserved capacity.
func (c *cluster) wantAllKept(plan Plan) {
	for name, reserved := range c.view.Reserved {
		sum := quantity.Amounts{}
		for _, h := range append(slices.Clone(c.view.Placeholders), plan.Create...) {
			if h.Placement == name && !slices.Contains(plan.Delete, h.Name) {
				sum = sum.Add(h.Amounts)
			}
		}
		for _, p := range c.view.Pods {
			nominated := p.Nominated != "" || slices.ContainsFunc(plan.Nominate, func(n Nomination) bool { return n.Pod == p.NamespacedName })
			if p.Placement == name && (p.Node != "" || nominated) {
				sum = sum.Add(p.Request)
			}
		}
		if !sum.Equal(reserved) {
			c.t.Fatalf("%s: %v of %v is accounted for", name, sum, reserved)
		}
	}
}

// A pod of a reservation that is no larger than one of its placeholders always gets its reserved
// capacity, whatever the cluster's own pods request and when.
func TestHeldCapacityIsForItsReservation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{t: t, size: map[string]quantity.Amounts{}, own: map[string]quantity.Amounts{}}
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			c.size[fmt.Sprintf("n%d", i)] = amounts(4000, 16*gib)
		}
		// Each reservation has a node of its own size, so that all of it can be kept.
		c.view.Reserved = map[string]quantity.Amounts{}
		for i := range rapid.IntRange(1, len(c.size)).Draw(t, "reservations") {
			c.view.Reserved[fmt.Sprintf("res-%d-1", i)] = amounts(4000, 16*gib)
		}
		c.settle()
		c.greedy = true
		c.grab()
		for i := range rapid.IntRange(1, 12).Draw(t, "steps") {
			placement := fmt.Sprintf("res-%d-1", rapid.IntRange(0, len(c.view.Reserved)-1).Draw(t, "placement"))
			if rapid.Bool().Draw(t, "goes") && len(c.view.Pods) > 0 {
				at := rapid.IntRange(0, len(c.view.Pods)-1).Draw(t, "which")
				c.view.Pods = slices.Delete(c.view.Pods, at, at+1)
				c.greedy = false // the agent puts a placeholder into the freed room before another pod takes it
				c.settle()
				c.greedy = true
			} else if size := rapid.SampledFrom([]int64{1, 1, 2, 5}).Draw(t, "size"); mayHave(c.view, placement) {
				c.view.Pods = append(c.view.Pods, Pod{
					NamespacedName: types.NamespacedName{Namespace: "demo", Name: fmt.Sprintf("pod-%d", i)}, Placement: placement,
					Request: amounts(1000/size, 4*gib/size),
				})
			}
			c.grab()
			c.settle()
			for _, p := range c.view.Pods {
				if p.Node == "" {
					t.Fatalf("%s of %s got no room: %+v", p.Name, p.Placement, c.view.Placeholders)
				}
			}
			for _, h := range c.view.Placeholders {
				if h.Node == "" {
					t.Fatalf("%+v keeps nothing any more", h)
				}
			}
		}
	})
}

// mayHave reports whether Liqo's quota would admit another pod of a placement. The quota is
// modelled as a limit of four pods.
func mayHave(v View, placement string) bool {
	n := 0
	for _, p := range v.Pods {
		if p.Placement == placement {
			n++
		}
	}
	return n < 4
}
