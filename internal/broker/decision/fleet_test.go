package decision

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

const gib int64 = 1 << 30

// size returns an amount of cores and of GiB of memory.
func size(cores, memory int64) quantity.Amounts {
	return quantity.Amounts{corev1.ResourceCPU: cores * 1000, corev1.ResourceMemory: memory * gib}
}

func podsOf(count int32, each quantity.Amounts) brokerv1alpha1.PodShape {
	return brokerv1alpha1.PodShape{Count: count, Resources: brokerv1alpha1.PodResources(each.ToResourceList())}
}

func dataOf(bytes int64, region string) *brokerv1alpha1.DataVolume {
	return &brokerv1alpha1.DataVolume{Volume: quantity.ToQuantity(corev1.ResourceStorage, bytes), Region: region}
}

// cluster returns a candidate with the given free and total cores and GiB of memory.
func cluster(id string, freeCores, cores, freeMemory, memory int64) Candidate {
	return Candidate{ID: id, Allocatable: size(cores, memory), Available: size(freeCores, freeMemory)}
}

func (c Candidate) withPrices(t testing.TB, currency, cpu, memory string) Candidate {
	t.Helper()
	c.Currency = currency
	c.Prices = map[corev1.ResourceName]Price{corev1.ResourceCPU: mustParsePrice(t, cpu), corev1.ResourceMemory: mustParsePrice(t, memory)}
	return c
}

func mustParsePrice(t testing.TB, s string) Price {
	t.Helper()
	p, err := money.ParsePrice(s)
	runtest.Check(t, err)
	return p
}

func newMarketWith(t testing.TB, candidates ...Candidate) *Market {
	t.Helper()
	m := NewMarket()
	for _, c := range candidates {
		runtest.Check(t, m.Upsert(c))
	}
	return m
}

// newFleet returns a market of n different clusters, the same for the same n. The requester rome
// has measured links to at most 64 of them.
func newFleet(t testing.TB, n int) *Market {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	m := NewMarket()
	for i := range n {
		c := fleetCluster(random, i)
		runtest.Check(t, m.Upsert(c))
	}
	for range min(n, 64) {
		m.SetLink("rome", fmt.Sprintf("cluster-%06d", random.IntN(n)),
			Link{Measured: true, Latency: time.Duration(random.IntN(150)) * time.Millisecond})
	}
	return m
}

func fleetCluster(random *rand.Rand, i int) Candidate {
	cores, memory := 64+random.Int64N(512), 256+random.Int64N(2048)
	c := cluster(fmt.Sprintf("cluster-%06d", i), random.Int64N(cores+1), cores, random.Int64N(memory+1), memory)
	c.Allocatable[corev1.ResourcePods], c.Available[corev1.ResourcePods] = 1100, 1000
	c.Currency = "EUR"
	c.Prices = map[corev1.ResourceName]Price{
		corev1.ResourceCPU:    Price(20_000_000 + random.Int64N(60_000_000)),
		corev1.ResourceMemory: Price(2_000_000 + random.Int64N(8_000_000)),
	}
	kept := random.Float64()
	c.Reliability = &kept
	c.Stale = random.IntN(50) == 0
	return c
}
