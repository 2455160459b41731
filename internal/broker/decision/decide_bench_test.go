package decision

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var sizes = []int{10, 100, 1000, 10000, 100000}

func multiCriteria() *Request {
	return &Request{Requester: "rome", Amounts: size(8, 32), Weights: presets[PresetMultiCriteria]}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("clusters=%d", n), func(b *testing.B) {
			m, r := newFleet(b, n), multiCriteria()
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := Decide(m, r); !ok {
					b.Fatal("no winner")
				}
			}
		})
	}
}

// BenchmarkDecideHard measures requests for which no shortcut applies, for example because every
// cluster ties, only cost counts, or no cluster can serve.
func BenchmarkDecideHard(b *testing.B) {
	const n = 10000
	alike := NewMarket()
	for i := range n {
		c := cluster(fmt.Sprintf("cluster-%06d", (i*7919)%n), 32, 64, 128, 256).withPrices(b, "EUR", "0.05", "0.01")
		runtest.Check(b, alike.Upsert(c))
	}
	varied := newFleet(b, n)
	pods := multiCriteria()
	pods.PodShapes = []brokerv1alpha1.PodShape{podsOf(4, size(2, 8))}
	shaped := NewMarket()
	random := rand.New(rand.NewPCG(2, n))
	for i := range n {
		c := fleetCluster(random, i)
		for k := range int64(8) {
			c.Shapes = append(c.Shapes, quantity.NodeShape{Count: 1 + random.Int64N(3), Free: size(k, 4*k)})
		}
		runtest.Check(b, shaped.Upsert(c))
	}
	for name, tc := range map[string]struct {
		m  *Market
		r  *Request
		ok bool
	}{
		"all alike":    {alike, multiCriteria(), true},
		"cost only":    {varied, &Request{Amounts: size(8, 32), Weights: Weights{Cost: 100}}, true},
		"nobody fits":  {varied, &Request{Amounts: size(8000, 32)}, false},
		"most full":    {varied, &Request{Amounts: size(450, 32)}, true},
		"shapes":       {shaped, pods, true},
		"latency only": {varied, &Request{Requester: "rome", Amounts: size(8, 32), Weights: Weights{Latency: 100}}, true},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := Decide(tc.m, tc.r); ok != tc.ok {
					b.Fatal("other outcome than expected")
				}
			}
		})
	}
}

func BenchmarkExplain(b *testing.B) {
	for _, n := range sizes[:4] {
		m, r := newFleet(b, n), multiCriteria()
		for name, top := range map[string]int{"ten": 10, "all": n} {
			b.Run(fmt.Sprintf("verdicts=%s/clusters=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					ExplainTop(m, r, top)
				}
			})
		}
	}
}

func BenchmarkSetAvailable(b *testing.B) {
	m, free := newFleet(b, 10000), size(16, 64)
	b.ReportAllocs()
	for b.Loop() {
		m.SetAvailable("cluster-005000", free)
	}
}

// cachedObject holds the fields of one cluster that a controller's cache would hold.
type cachedObject struct {
	id                     string
	available, allocatable corev1.ResourceList
	cpuCost, memoryCost    string
	stale                  bool
}

func (o *cachedObject) deepCopy() *cachedObject {
	out := *o
	out.available, out.allocatable = o.available.DeepCopy(), o.allocatable.DeepCopy()
	return &out
}

// BenchmarkReference decides as a plain controller would, on two criteria only: it lists its cache,
// with or without deep copies, and computes with Quantities.
func BenchmarkReference(b *testing.B) {
	want := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi")}
	for _, n := range sizes[:4] {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		cache := make([]*cachedObject, n)
		for i := range cache {
			c := fleetCluster(random, i)
			cache[i] = &cachedObject{
				id: c.ID, stale: c.Stale,
				available: c.Available.ToResourceList(), allocatable: c.Allocatable.ToResourceList(),
				cpuCost: c.Prices[corev1.ResourceCPU].String(), memoryCost: c.Prices[corev1.ResourceMemory].String(),
			}
		}
		for _, copies := range []bool{true, false} {
			b.Run(fmt.Sprintf("copies=%v/clusters=%d", copies, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					list := cache
					if copies {
						list = make([]*cachedObject, n)
						for i, o := range cache {
							list[i] = o.deepCopy()
						}
					}
					if referenceDecide(list, want) == "" {
						b.Fatal("no winner")
					}
				}
			})
		}
	}
}

func referenceDecide(list []*cachedObject, want corev1.ResourceList) string {
	fits := func(o *cachedObject) bool {
		for name, need := range want {
			if have, ok := o.available[name]; !ok || have.Cmp(need) < 0 {
				return false
			}
		}
		return !o.stale
	}
	costs := make([]float64, len(list))
	cheapest := -1.0
	cpu, memory := want[corev1.ResourceCPU], want[corev1.ResourceMemory]
	for i, o := range list {
		if !fits(o) {
			continue
		}
		cpuCost, _ := decimal.NewFromString(o.cpuCost)
		memoryCost, _ := decimal.NewFromString(o.memoryCost)
		costs[i] = cpuCost.InexactFloat64()*cpu.AsApproximateFloat64() + memoryCost.InexactFloat64()*memory.AsApproximateFloat64()/float64(gib)
		if cheapest < 0 || costs[i] < cheapest {
			cheapest = costs[i]
		}
	}
	share := func(o *cachedObject, name corev1.ResourceName) float64 {
		free, all := o.available[name], o.allocatable[name]
		return free.AsApproximateFloat64() / all.AsApproximateFloat64()
	}
	winner, best := "", -1.0
	for i, o := range list {
		if !fits(o) {
			continue
		}
		total := 0.7*(share(o, corev1.ResourceCPU)+share(o, corev1.ResourceMemory))*50 + 0.3*100*cheapest/costs[i]
		if total > best {
			winner, best = o.id, total
		}
	}
	return winner
}
