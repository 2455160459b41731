package fitting

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func TestUnusedIsWhatDoesNotRun(t *testing.T) {
	cores := func(n int64) quantity.Amounts { return quantity.Amounts{"cpu": n} }
	tests := map[string]struct {
		kept     quantity.Amounts
		promised []Pods
		running  []quantity.Amounts
		want     []Pods
		rest     quantity.Amounts
	}{
		"nothing runs":                       {kept: cores(8), promised: []Pods{{2, cores(4)}}, want: []Pods{{2, cores(4)}}, rest: quantity.Amounts{"cpu": 0}},
		"more is kept than the pods need":    {kept: cores(9), promised: []Pods{{2, cores(4)}}, want: []Pods{{2, cores(4)}}, rest: cores(1)},
		"one pod runs":                       {kept: cores(8), promised: []Pods{{2, cores(4)}}, running: []quantity.Amounts{{"cpu": 4, "pods": 1}}, want: []Pods{{1, cores(4)}}, rest: quantity.Amounts{"cpu": 0}},
		"a smaller pod runs in its place":    {kept: cores(8), promised: []Pods{{2, cores(4)}}, running: []quantity.Amounts{cores(3)}, want: []Pods{{1, cores(4)}}, rest: cores(1)},
		"a pod stands for the smallest size": {kept: cores(10), promised: []Pods{{2, cores(4)}, {1, cores(2)}}, running: []quantity.Amounts{cores(2)}, want: []Pods{{2, cores(4)}}, rest: quantity.Amounts{"cpu": 0}},
		"a larger pod leaves less for all":   {kept: cores(8), promised: []Pods{{2, cores(4)}}, running: []quantity.Amounts{cores(5)}, want: []Pods{}, rest: cores(3)},
		"a smaller pod runs beside them":     {kept: cores(11), promised: []Pods{{2, cores(4)}}, running: []quantity.Amounts{cores(3)}, want: []Pods{{2, cores(4)}}, rest: quantity.Amounts{"cpu": 0}},
		"each pod takes a slot": {
			kept: quantity.Amounts{"cpu": 12, corev1.ResourcePods: 4}, promised: []Pods{{2, cores(4)}}, running: []quantity.Amounts{{"cpu": 3, corev1.ResourcePods: 1}},
			want: []Pods{{2, cores(4)}}, rest: quantity.Amounts{"cpu": 1, corev1.ResourcePods: 1},
		},
		"less is kept after a reduction":    {kept: cores(5), promised: []Pods{{2, cores(4)}}, want: []Pods{{1, cores(4)}}, rest: cores(1)},
		"without shapes everything is rest": {kept: cores(5), running: []quantity.Amounts{cores(2)}, rest: cores(3)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			left, rest := Unused(test.kept, test.promised, test.running)
			if diff := gocmp.Diff(fmt.Sprint(test.want), fmt.Sprint(left)); diff != "" || !rest.Equal(test.rest) {
				t.Errorf("rest %v, want %v; pods (-want +got):\n%s", rest, test.rest, diff)
			}
		})
	}
}

// Clusters of GPU nodes get requests, and some of the promised pods start between two requests. Whatever
// starts first, and whichever nodes the scheduler prefers, each promised pod must find a node in the end.
func TestAcceptedPodsFindNodesWhateverTheSchedulerPrefers(t *testing.T) {
	schedulers := map[string]func(*rand.Rand) func(quantity.Amounts) float64{
		"packs": func(*rand.Rand) func(quantity.Amounts) float64 { return busiest },
		"spreads": func(*rand.Rand) func(quantity.Amounts) float64 {
			return func(f quantity.Amounts) float64 { return -busiest(f) }
		},
		"picks any node": func(r *rand.Rand) func(quantity.Amounts) float64 {
			return func(quantity.Amounts) float64 { return r.Float64() }
		},
		"spreads only GPUs": func(*rand.Rand) func(quantity.Amounts) float64 {
			return func(f quantity.Amounts) float64 { return float64(f["gpu"]) }
		},
		"packs GPUs tightly": func(*rand.Rand) func(quantity.Amounts) float64 {
			return func(f quantity.Amounts) float64 { return -float64(f["gpu"]) }
		},
	}
	requests := map[string]func(*rand.Rand) *placement{
		"one size":          func(r *rand.Rand) *placement { return randomPlacement(r, 1) },
		"several sizes":     func(r *rand.Rand) *placement { return randomPlacement(r, 1+r.IntN(3)) },
		"half without pods": func(r *rand.Rand) *placement { return randomPlacement(r, r.IntN(2)) },
		"sizes and amounts": func(r *rand.Rand) *placement {
			p := randomPlacement(r, r.IntN(3))
			p.kept = p.kept.Add(quantity.Amounts{"cpu": r.Int64N(3), "memory": r.Int64N(9), corev1.ResourcePods: r.Int64N(3)})
			return p
		},
	}
	for request, next := range requests {
		for scheduler, prefers := range schedulers {
			t.Run(request+", scheduler "+scheduler, func(t *testing.T) {
				accepted, refused := 0, 0
				for seed := range uint64(100) {
					r := rand.New(rand.NewPCG(seed, 1))
					c := &cluster{random: r, prefers: prefers(r), order: r.IntN(4), free: randomNodes(r)}
					nodes := fmt.Sprint(c.free)
					for range 20 {
						if !c.grant(next(r)) {
							refused++
						}
						if r.IntN(3) == 0 {
							c.start(r.IntN(4))
						}
					}
					accepted += len(c.placements)
					if c.start(math.MaxInt); c.stuck != nil {
						t.Errorf("seed %d: a pod of %v finds no node among %v; promised: %v", seed, c.stuck, nodes, c.placements)
					}
				}
				if accepted < 200 || refused < 100 {
					t.Errorf("%d accepted and %d refused: the test shows nothing", accepted, refused)
				}
			})
		}
	}
}

func busiest(free quantity.Amounts) float64 {
	return -float64(free["cpu"])/64 - float64(free["memory"])/256 - float64(free["gpu"])/8
}

func randomNodes(r *rand.Rand) (free []quantity.Amounts) {
	for range 2 + r.IntN(6) {
		free = append(free, quantity.Amounts{
			"cpu": 16 + r.Int64N(49), "memory": 64 + r.Int64N(193), "gpu": []int64{0, 2, 4, 8}[r.IntN(4)], corev1.ResourcePods: 20,
		})
	}
	return free
}

// placement is a request: the amounts that are kept for it, the pods that it names, those of them that do
// not run yet, and its pods that run. Beside the named pods it may have others, up to the amounts.
type placement struct {
	kept             quantity.Amounts
	shapes           []Pods
	waiting, running []quantity.Amounts
	// full is true once another pod found no node.
	full bool
}

func (p *placement) String() string { return fmt.Sprintf("%v of %v", p.shapes, p.kept) }

func randomPlacement(r *rand.Rand, sizes int) *placement {
	p := &placement{kept: quantity.Amounts{}}
	for range max(1, sizes) {
		each := quantity.Amounts{"cpu": 1 + r.Int64N(12), "memory": 1 + r.Int64N(48), "gpu": []int64{0, 1, 1, 2, 4}[r.IntN(5)]}
		pods := Pods{1 + r.Int64N(4), each}
		p.kept = p.kept.Add(each.Max(quantity.Amounts{corev1.ResourcePods: 1}).Times(pods.Count))
		if sizes > 0 {
			p.shapes, p.waiting = append(p.shapes, pods), append(p.waiting, slices.Repeat([]quantity.Amounts{each}, int(pods.Count))...)
		}
	}
	return p
}

func (p *placement) promise() Promise {
	pods, rest := Unused(p.kept, p.shapes, p.running)
	return Promise{Pods: pods, Rest: rest}
}

// cluster is a provider with nodes, and a scheduler that takes the node with the highest score.
type cluster struct {
	random     *rand.Rand
	prefers    func(quantity.Amounts) float64
	order      int
	free       []quantity.Amounts
	placements []*placement
	stuck      quantity.Amounts
}

// grant accepts a placement if its amounts and its pods fit.
func (c *cluster) grant(p *placement) bool {
	var nodes []Node
	room := quantity.Amounts{}
	for _, free := range c.free {
		nodes, room = append(nodes, Node{Count: 1, Free: free}), room.Add(free)
	}
	var others []Promise
	for _, o := range c.placements {
		others, room = append(others, o.promise()), room.Sub(o.kept)
		for _, pod := range o.running {
			room = room.Add(pod)
		}
	}
	if _, fits := quantity.Fits(p.kept, room); !fits || Check(nodes, others, p.promise()) != nil {
		return false
	}
	c.placements = append(c.placements, p)
	return true
}

// start starts at most this many pods.
func (c *cluster) start(most int) {
	for range most {
		p, pod, named := c.next()
		if p == nil {
			return
		}
		switch {
		case c.place(p, pod):
		case named:
			c.stuck = pod
		default:
			p.full = true
		}
	}
}

// next takes a pod that does not run yet. The order decides whether others start before the named pods, and
// whether the smallest, the largest or any of them starts first.
func (c *cluster) next() (of *placement, pod quantity.Amounts, named bool) {
	best := math.Inf(-1)
	for _, p := range c.placements {
		if other := c.other(p); other != nil {
			if score := []float64{c.random.Float64(), 1e6, 1e6, -1e6}[c.order]; score > best {
				of, pod, named, best = p, other, false, score
			}
		}
		for _, w := range p.waiting {
			if score := []float64{c.random.Float64(), busiest(w), -busiest(w), c.random.Float64()}[c.order]; score > best {
				of, pod, named, best = p, w, true, score
			}
		}
	}
	if named {
		at := slices.IndexFunc(of.waiting, pod.Equal)
		of.waiting = slices.Delete(slices.Clone(of.waiting), at, at+1)
	}
	return of, pod, named
}

// other returns a pod that a placement may have beside the pods that it names, or nil.
func (c *cluster) other(p *placement) quantity.Amounts {
	_, rest := Unused(p.kept, p.shapes, p.running)
	if rest[corev1.ResourcePods] == 0 || p.full {
		return nil
	}
	pod := quantity.Amounts{corev1.ResourcePods: 1}
	for name, amount := range rest {
		switch {
		case name == corev1.ResourcePods || amount == 0:
		case c.random.IntN(2) == 0:
			pod[name] = 1
		default:
			pod[name] = max(1, amount/rest[corev1.ResourcePods])
		}
	}
	return pod
}

// place puts a pod on a node and returns true, or returns false if it fits on none.
func (c *cluster) place(p *placement, pod quantity.Amounts) bool {
	pod = pod.Max(quantity.Amounts{corev1.ResourcePods: 1})
	best := -1
	for i, free := range c.free {
		if _, fits := quantity.Fits(pod, free); fits && (best < 0 || c.prefers(free) > c.prefers(c.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	c.free[best] = c.free[best].Sub(pod)
	p.running = append(p.running, pod)
	return true
}

// BenchmarkCheckNextToManyPromises measures Check for a large provider, which must answer within
// the time that the broker gives it.
func BenchmarkCheckNextToManyPromises(b *testing.B) {
	for _, size := range []struct{ nodes, promises int }{{80, 100}, {80, 300}, {80, 1000}, {2000, 200}} {
		b.Run(fmt.Sprintf("%d nodes and %d promises", size.nodes, size.promises), func(b *testing.B) {
			r := rand.New(rand.NewPCG(7, 7))
			var nodes []Node
			for range size.nodes {
				nodes = append(nodes, Node{Count: 1, Free: randomNodes(r)[0].Times(100)})
			}
			var promises []Promise
			for i := range size.promises {
				each := quantity.Amounts{"cpu": 1 + r.Int64N(12), "memory": 1 + r.Int64N(48), "gpu": r.Int64N(3)}
				if i%2 == 0 {
					promises = append(promises, Promise{Pods: []Pods{{1 + r.Int64N(20), each}}})
				} else {
					promises = append(promises, Promise{Rest: each})
				}
			}
			for b.Loop() {
				if misfit := Check(nodes, promises, Promise{Pods: []Pods{{4, quantity.Amounts{"cpu": 8, "gpu": 1}}}}); misfit != nil {
					b.Fatal(misfit.Message()) // the whole check must run
				}
			}
		})
	}
}
