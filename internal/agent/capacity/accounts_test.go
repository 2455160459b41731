package capacity

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// world holds the facts that the accounts summarise.
type world struct {
	nodes map[string]nodeFacts
	pods  map[podKey]podFacts
	// unbound maps pods without a node to their wishes; nil for a pod that the scheduler has not found
	// unschedulable.
	unbound map[podKey]*wish
}

// recount computes the Snapshot anew from all facts. It specifies what the running totals must
// equal.
func (w *world) recount() Snapshot {
	s := Snapshot{
		Capacity: quantity.Amounts{}, Allocatable: quantity.Amounts{}, Allocated: quantity.Amounts{},
		Used: map[string]quantity.Amounts{}, Pending: quantity.Amounts{}, NodeShapes: []quantity.NodeShape{},
	}
	for _, r := range w.unbound {
		if r == nil {
			continue
		}
		r.addTo(s.Pending, +1)
		if since := time.Unix(r.since, 0); s.PendingSince.IsZero() || since.Before(s.PendingSince) {
			s.PendingSince = since
		}
	}
	free := map[string]quantity.Amounts{}
	for name, n := range w.nodes {
		if n.ours {
			s.Capacity = s.Capacity.Add(n.capacity)
		}
		if n.counts {
			s.Nodes++
			s.Allocatable = s.Allocatable.Add(n.allocatable)
			free[name] = n.allocatable
		}
	}
	for _, p := range w.pods {
		if p.node == "" {
			continue
		}
		amounts := quantity.Amounts{}
		if w.nodes[p.node].counts {
			p.request.addTo(amounts, +1)
			free[p.node] = free[p.node].Sub(amounts)
		}
		if p.placement != "" {
			s.Used[p.placement] = s.Used[p.placement].Add(amounts)
		} else {
			s.Allocated = s.Allocated.Add(amounts)
		}
	}
	exact := map[string]*quantity.NodeShape{}
	for name, f := range free {
		f = f.Max(nil)
		for r := range f {
			if _, offered := w.nodes[name].allocatable[r]; !offered || f[r] == 0 {
				delete(f, r)
			}
		}
		key := fmt.Sprint(f.ToResourceList())
		if exact[key] == nil {
			exact[key] = &quantity.NodeShape{Free: f}
		}
		exact[key].Count++
	}
	for _, shape := range exact {
		s.NodeShapes = append(s.NodeShapes, *shape)
	}
	return s
}

var sameFigures = cmp.Options{
	cmp.Comparer(func(a, b quantity.Amounts) bool { return a.Equal(b) }),
	cmpopts.SortSlices(func(a, b quantity.NodeShape) bool { return compareFree(a.Free, b.Free) < 0 }),
}

func TestRunningTotalsEqualARecount(t *testing.T) {
	drawAmounts := rapid.Custom(func(t *rapid.T) quantity.Amounts {
		a := quantity.Amounts{
			"cpu":    rapid.Int64Range(0, 4).Draw(t, "cpu") * 1000,
			"memory": rapid.Int64Range(0, 4).Draw(t, "memory") << 30,
			"pods":   rapid.Int64Range(0, 10).Draw(t, "pods"),
		}
		if rapid.Bool().Draw(t, "has gpu") {
			a["nvidia.com/gpu"] = rapid.Int64Range(0, 2).Draw(t, "gpu")
		}
		return a
	})
	drawNode := rapid.Custom(func(t *rapid.T) nodeFacts {
		ours := rapid.Bool().Draw(t, "ours")
		return nodeFacts{
			capacity: drawAmounts.Draw(t, "capacity"), allocatable: drawAmounts.Draw(t, "allocatable"),
			ours: ours, counts: ours && rapid.Bool().Draw(t, "counts"),
		}
	})
	drawRequest := rapid.Custom(func(t *rapid.T) request {
		r := request{milliCPU: rapid.Int64Range(0, 1500).Draw(t, "cpu"), memory: rapid.Int64Range(0, 1<<30).Draw(t, "memory")}
		if rapid.Bool().Draw(t, "wants gpu") {
			r.others = []other{{"nvidia.com/gpu", 1}}
		}
		return r
	})
	drawPod := rapid.Custom(func(t *rapid.T) podFacts {
		return podFacts{
			node:      rapid.SampledFrom([]string{"", "n1", "n2", "n3", "n4"}).Draw(t, "node"),
			placement: rapid.SampledFrom([]string{"", "", "res-aaaaaaaaaa-1", "res-aaaaaaaaaa-2"}).Draw(t, "placement"),
			request:   drawRequest.Draw(t, "request"),
		}
	})
	drawUnbound := rapid.Ptr(rapid.Custom(func(t *rapid.T) wish {
		return wish{request: drawRequest.Draw(t, "request"), since: rapid.Int64Range(1, 5).Draw(t, "since")}
	}), true)
	nodeName := rapid.SampledFrom([]string{"n1", "n2", "n3", "n4"})
	podID := rapid.Custom(func(t *rapid.T) podKey { return podKey{rapid.ByteRange(0, 9).Draw(t, "pod")} })

	rapid.Check(t, func(t *rapid.T) {
		a := newAccounts()
		w := world{nodes: map[string]nodeFacts{}, pods: map[podKey]podFacts{}, unbound: map[podKey]*wish{}}
		t.Repeat(map[string]func(*rapid.T){
			"a node changes": func(t *rapid.T) {
				name, f := nodeName.Draw(t, "name"), drawNode.Draw(t, "node")
				w.nodes[name] = f
				a.setNode(name, f)
			},
			"a node goes": func(t *rapid.T) {
				name := nodeName.Draw(t, "name")
				delete(w.nodes, name)
				a.removeNode(name)
			},
			"a pod changes": func(t *rapid.T) {
				key, f := podID.Draw(t, "key"), drawPod.Draw(t, "pod")
				w.pods[key] = f
				a.setPod(key, f)
			},
			"a pod goes": func(t *rapid.T) {
				key := podID.Draw(t, "key")
				delete(w.pods, key)
				a.removePod(key)
			},
			"the nodes are listed again": func(t *rapid.T) {
				w.nodes = rapid.MapOf(nodeName, drawNode).Draw(t, "nodes")
				a.replaceNodes(w.nodes)
			},
			"the pods are listed again": func(t *rapid.T) {
				w.pods = rapid.MapOf(podID, drawPod).Draw(t, "pods")
				a.replacePods(w.pods)
			},
			"a pod without a node changes": func(t *rapid.T) {
				key, r := podID.Draw(t, "key"), drawUnbound.Draw(t, "request")
				before := w.unbound[key]
				w.unbound[key] = r
				if moved := !cmp.Equal(before, r, cmp.AllowUnexported(wish{}, request{}, other{})); a.pending.setPod(key, r) != moved {
					t.Fatalf("a change from %v is reported wrongly", before)
				}
			},
			"a pod without a node goes, or is bound": func(t *rapid.T) {
				key := podID.Draw(t, "key")
				delete(w.unbound, key)
				a.pending.removePod(key)
			},
			"the pods without a node are listed again": func(t *rapid.T) {
				w.unbound = rapid.MapOf(podID, drawUnbound).Draw(t, "pods")
				a.pending.replacePods(w.unbound)
			},
			"": func(t *rapid.T) {
				want, got := w.recount(), a.newSnapshot()
				if diff := cmp.Diff(want, got, sameFigures); diff != "" {
					t.Fatalf("snapshot (-recount +running):\n%s", diff)
				}
			},
		})
		a.replacePods(nil)
		a.replaceNodes(nil)
		a.pending.replacePods(nil)
		if len(a.nodes)+len(a.pods)+len(a.used)+len(a.histogram.counts[0])+len(a.pending.pods)+len(a.pending.crowds)+len(a.pending.sum) != 0 {
			t.Fatalf("an empty cluster leaves %d nodes, %d pods, %d placements, %d shapes, %d pending pods, %v",
				len(a.nodes), len(a.pods), len(a.used), len(a.histogram.counts[0]), len(a.pending.pods), a.pending.sum)
		}
	})
}

func TestShapesNeverPromiseMoreThanThereIs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	a := newAccounts()
	for i := range 5000 {
		a.setNode(fmt.Sprint("n", i), nodeFacts{ours: true, counts: true, allocatable: quantity.Amounts{
			"cpu": rng.Int64N(64000), "memory": rng.Int64N(256 << 30), "pods": rng.Int64N(110), "nvidia.com/gpu": rng.Int64N(9),
		}})
	}
	s := a.newSnapshot()
	if len(s.NodeShapes) > MaxShapes {
		t.Fatalf("%d shapes", len(s.NodeShapes))
	}
	var nodes int64
	sum := quantity.Amounts{}
	for _, shape := range s.NodeShapes {
		nodes += shape.Count
		sum = sum.Add(shape.Free.Times(shape.Count))
	}
	if nodes != 5000 {
		t.Errorf("shapes of %d nodes", nodes)
	}
	if shortage, ok := quantity.Fits(sum, s.Allocatable); !ok {
		t.Errorf("shapes promise too much: %+v", shortage)
	}
	t.Logf("%d shapes show %d%% of the cpu and %d%% of the memory", len(s.NodeShapes),
		sum["cpu"]*100/s.Allocatable["cpu"], sum["memory"]*100/s.Allocatable["memory"])

	again := newAccounts()
	for i := 4999; i >= 0; i-- {
		n := fmt.Sprint("n", i)
		again.setNode(n, a.nodes[n].facts)
	}
	if diff := cmp.Diff(s.NodeShapes, again.newSnapshot().NodeShapes); diff != "" {
		t.Errorf("shapes depend on the order of events:\n%s", diff)
	}
}

func TestMergeTail(t *testing.T) {
	three := []quantity.NodeShape{
		{Count: 1, Free: quantity.Amounts{"cpu": 9}},
		{Count: 2, Free: quantity.Amounts{"cpu": 5, "memory": 7, "nvidia.com/gpu": 1}},
		{Count: 3, Free: quantity.Amounts{"cpu": 2, "memory": 8}},
	}
	want := []quantity.NodeShape{
		{Count: 1, Free: quantity.Amounts{"cpu": 9}},
		{Count: 5, Free: quantity.Amounts{"cpu": 2, "memory": 7, "nvidia.com/gpu": 0}},
	}
	if diff := cmp.Diff(want, mergeTail(three, 2)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestHeld(t *testing.T) {
	s := Snapshot{Used: map[string]quantity.Amounts{
		"res-a-1": {"cpu": 500}, "res-b-1": {"cpu": 3000}, "res-gone-1": {"cpu": 100},
	}}
	held, stray := s.Held(map[string]quantity.Amounts{"res-a-1": {"cpu": 1000}, "res-b-1": {"cpu": 2000}, "res-idle-1": {"cpu": 10}})
	if !held.Equal(quantity.Amounts{"cpu": 1000 + 3000 + 10}) {
		t.Errorf("held %v", held)
	}
	if !stray.Equal(quantity.Amounts{"cpu": 100}) {
		t.Errorf("stray %v", stray)
	}
}

// large fills accounts with 5,000 nodes and 150,000 pods.
func large() *accounts {
	rng := rand.New(rand.NewPCG(1, 2))
	a := newAccounts()
	for i := range 5000 {
		all := quantity.Amounts{"cpu": 64000, "memory": 256 << 30, "pods": 110, corev1.ResourceEphemeralStorage: 100 << 30}
		a.setNode(fmt.Sprint("node-", i), nodeFacts{ours: true, counts: true, capacity: all, allocatable: all})
	}
	for i := range 150000 {
		a.setPod(benchKey(i), podFacts{
			node:    fmt.Sprint("node-", i%5000),
			request: request{milliCPU: 50 + rng.Int64N(1000), memory: rng.Int64N(4 << 30)},
		})
	}
	return a
}

func benchKey(i int) podKey { return podKey{byte(i), byte(i >> 8), byte(i >> 16)} }

func BenchmarkSnapshotAfterFiftyPodEvents(b *testing.B) {
	a := large()
	a.newSnapshot()
	rng := rand.New(rand.NewPCG(3, 4))
	b.ReportAllocs()
	for b.Loop() {
		for range 50 {
			i := rng.IntN(150000)
			a.setPod(benchKey(i), podFacts{node: fmt.Sprint("node-", i%5000), request: request{milliCPU: rng.Int64N(1000)}})
		}
		a.newSnapshot()
	}
}

func BenchmarkSnapshotUnchanged(b *testing.B) {
	a := large()
	a.newSnapshot()
	b.ReportAllocs()
	for b.Loop() {
		a.newSnapshot()
	}
}

func BenchmarkPodEvent(b *testing.B) {
	a := large()
	facts := podFacts{node: "node-1"}
	b.ReportAllocs()
	for b.Loop() {
		facts.request.milliCPU++
		a.setPod(benchKey(7), facts)
	}
}

func BenchmarkHeapPerPod(b *testing.B) {
	for b.Loop() {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := large()
		a.newSnapshot()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/150000, "B/pod")
		runtime.KeepAlive(a)
	}
}

// Nodes with different labels have different shapes, even if their free amounts are equal.
func TestShapesTellNodesApartByTheLabelsThatAreShown(t *testing.T) {
	shown := []string{"nvidia.com/gpu.product"}
	named := func(product string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Labels = map[string]string{"kubernetes.io/hostname": "n", "nvidia.com/gpu.product": product}
		}
	}
	a := newAccounts()
	for i, edit := range []func(*corev1.Node){named("A100"), named("T4"), named("A100"), func(*corev1.Node) {}} {
		a.setNode(fmt.Sprint("node-", i), factsOfNode(readyNode(edit), shown, everything))
	}
	products := func() map[string]int64 {
		got := map[string]int64{}
		for _, s := range a.newSnapshot().NodeShapes {
			got[fmt.Sprint(s.Labels)] += s.Count
		}
		return got
	}
	want := map[string]int64{"map[]": 1, "map[nvidia.com/gpu.product:A100]": 2, "map[nvidia.com/gpu.product:T4]": 1}
	if diff := cmp.Diff(want, products()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	a.setNode("node-1", factsOfNode(readyNode(named("A100")), shown, everything))
	want = map[string]int64{"map[]": 1, "map[nvidia.com/gpu.product:A100]": 3}
	if diff := cmp.Diff(want, products()); diff != "" {
		t.Errorf("nodes after one was labelled anew (-want +got):\n%s", diff)
	}
}
