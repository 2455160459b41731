package fitting

import (
	"cmp"
	"fmt"
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
		"less is kept after a reduction":     {kept: cores(5), promised: []Pods{{2, cores(4)}}, want: []Pods{{1, cores(4)}}, rest: cores(1)},
		"without shapes everything is rest":  {kept: cores(5), running: []quantity.Amounts{cores(2)}, rest: cores(3)},
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

// Clusters of GPU nodes get requests until few fit. Then the pods of all accepted ones start in
// any order under a scheduler with any preference, and each must find a node.
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
	for name, prefers := range schedulers {
		t.Run(name, func(t *testing.T) {
			accepted, refused := 0, 0
			for seed := range uint64(300) {
				r := rand.New(rand.NewPCG(seed, 1))
				nodes := randomNodes(r)
				promises, no := grant(r, nodes)
				accepted, refused = accepted+len(promises), refused+no
				if stuck := schedule(r, nodes, promises, prefers(r)); stuck != nil {
					t.Fatalf("seed %d: a pod of %v finds no node among %v; promised: %v", seed, stuck, nodes, promises)
				}
			}
			if accepted < 600 || refused < 100 {
				t.Errorf("%d accepted and %d refused: the test shows nothing", accepted, refused)
			}
		})
	}
}

func busiest(free quantity.Amounts) float64 {
	return -float64(free["cpu"])/64 - float64(free["memory"])/256 - float64(free["gpu"])/8
}

func randomNodes(r *rand.Rand) (nodes []Node) {
	for range 2 + r.IntN(6) {
		nodes = append(nodes, Node{Count: 1, Free: quantity.Amounts{
			"cpu": 16 + r.Int64N(49), "memory": 64 + r.Int64N(193), "gpu": []int64{0, 2, 4, 8}[r.IntN(4)], corev1.ResourcePods: 20,
		}})
	}
	return nodes
}

func grant(r *rand.Rand, nodes []Node) (promises []Promise, refused int) {
	for range 20 {
		each := quantity.Amounts{"cpu": 1 + r.Int64N(12), "memory": 1 + r.Int64N(48), "gpu": []int64{0, 1, 1, 2, 4}[r.IntN(5)]}
		wanted := Promise{Pods: []Pods{{1 + r.Int64N(4), each}}}
		if Check(nodes, promises, wanted) == nil {
			promises = append(promises, wanted)
		} else {
			refused++
		}
	}
	return promises, refused
}

// schedule starts all pods in a random order, each on the node with the highest score, and returns
// the first one that fits on no node, or nil if all fit.
func schedule(r *rand.Rand, nodes []Node, promises []Promise, score func(quantity.Amounts) float64) quantity.Amounts {
	var pods, free []quantity.Amounts
	for _, p := range promises {
		for _, kind := range p.Pods {
			for range kind.Count {
				pods = append(pods, kind.Each.Max(quantity.Amounts{corev1.ResourcePods: 1}))
			}
		}
	}
	for _, n := range nodes {
		free = append(free, n.Free.Clone())
	}
	r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	for _, pod := range pods {
		var room []int
		for i := range free {
			if _, fits := quantity.Fits(pod, free[i]); fits {
				room = append(room, i)
			}
		}
		if len(room) == 0 {
			return pod
		}
		best := slices.MaxFunc(room, func(i, j int) int { return cmp.Compare(score(free[i]), score(free[j])) })
		free[best] = free[best].Sub(pod)
	}
	return nil
}

// BenchmarkCheckNextToManyPromises measures Check for a large provider, which must answer within
// the time that the broker gives it.
func BenchmarkCheckNextToManyPromises(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 7))
	var nodes []Node
	for range 2000 {
		nodes = append(nodes, randomNodes(r)[0])
	}
	var promises []Promise
	for range 200 {
		promises = append(promises, Promise{Pods: []Pods{{20, quantity.Amounts{"cpu": 1 + r.Int64N(12), "memory": 1 + r.Int64N(48), "gpu": r.Int64N(3)}}}})
	}
	for b.Loop() {
		Check(nodes, promises, Promise{Pods: []Pods{{4, quantity.Amounts{"cpu": 8, "gpu": 1}}}})
	}
}
