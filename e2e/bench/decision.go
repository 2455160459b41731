package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const gib = 1 << 30

// measureDecisions measures how long a decision takes in markets of growing size. It runs
// no broker.
func measureDecisions(_ context.Context, s settings, t *table) error {
	for _, clusters := range []int{10, 50, 100, 1_000, 10_000} {
		if clusters > s.clusters {
			break
		}
		m, err := randomMarket(clusters)
		if err != nil {
			return err
		}
		request, err := fourCriteria()
		if err != nil {
			return err
		}
		result := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := decision.Decide(m, request); !ok {
					b.Fatal("no winner")
				}
			}
		})
		goals := only("µs")
		if clusters == 10_000 {
			goals = atMost(20, 5, "µs")
		}
		t.row(fmt.Sprintf("decision at %d clusters", clusters), float64(result.NsPerOp())/1e3, goals,
			"four criteria, %d allocations", result.AllocsPerOp())
		if clusters == 10_000 && result.AllocsPerOp() > 0 {
			return fmt.Errorf("a decision allocates %d times", result.AllocsPerOp())
		}
	}
	return nil
}

func fourCriteria() (*decision.Request, error) {
	weights, err := decision.Preset(decision.PresetMultiCriteria)
	return &decision.Request{Requester: "rome", Amounts: amounts(8, 32), Weights: weights}, err
}

func amounts(cores, memory int64) quantity.Amounts {
	return quantity.Amounts{corev1.ResourceCPU: cores * 1000, corev1.ResourceMemory: memory * gib}
}

// randomMarket returns a random market. For a given number of clusters it is always the
// same.
func randomMarket(clusters int) (*decision.Market, error) {
	random, m := rand.New(rand.NewPCG(1, uint64(clusters))), decision.NewMarket()
	for i := range clusters {
		cores, memory, kept := 64+random.Int64N(512), 256+random.Int64N(2048), random.Float64()
		err := m.Upsert(decision.Candidate{
			ID:          clusterID(i),
			Allocatable: amounts(cores, memory), Available: amounts(random.Int64N(cores+1), random.Int64N(memory+1)),
			Currency: "EUR", Reliability: &kept,
			Prices: map[corev1.ResourceName]decision.Price{
				corev1.ResourceCPU:    decision.Price(20_000_000 + random.Int64N(60_000_000)),
				corev1.ResourceMemory: decision.Price(2_000_000 + random.Int64N(8_000_000)),
			},
		})
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

func clusterID(i int) string { return fmt.Sprintf("cluster-%06d", i) }
