package reputation

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// market is a fleet in which one provider is the first choice of every request. failing says how
// often it fails, from 0 to 1; all other providers serve.
type market struct {
	requesters int
	every      time.Duration
	failing    float64
	random     *rand.Rand
	first      *Reputation
	now        time.Time
}

func newMarket(seed uint64, requesters int, perHour, failing float64) *market {
	return &market{
		requesters: requesters, every: time.Duration(float64(time.Hour) / perHour), failing: failing,
		random: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_800_000_000, 0),
	}
}

// run makes a number of requests, one by one, each from the next requester, and returns how many the
// first choice got, and how many of those it failed.
func (m *market) run(requests int) (got, failed int) {
	for n := range requests {
		m.now = m.now.Add(m.every)
		requester := fmt.Sprint("requester-", n%m.requesters)
		all, of, _ := m.first.Suspended(m.now)
		if _, kept := of[requester]; all != nil || kept {
			continue // others serve, whether it is the last resort or not
		}
		got++
		granted := m.now
		m.first = m.first.Granted(granted, requester)
		at := granted.Add(min(10*time.Second, m.every/2))
		if m.random.Float64() < m.failing {
			failed++
			m.first = m.first.Failed(at, granted, requester, Failure)
		} else {
			m.first = m.first.Served(at, granted, requester)
		}
	}
	return got, failed
}

const seeds = 20

var rates = []float64{3600, 20, 1} // requests an hour

// However rare requests are, and however many clusters make them, a provider that fails is soon left.
func TestLiarGetsHardlyAnyRequestAtAnyRate(t *testing.T) {
	for _, perHour := range rates {
		for _, requesters := range []int{1, 2, 3, 9, 49} {
			for name, failing := range map[string]float64{"never acknowledges": 1, "serves every second time": 0.5} {
				t.Run(fmt.Sprintf("%s at %v an hour from %d", name, perHour, requesters), func(t *testing.T) {
					first, failed := 0, 0
					for seed := range uint64(seeds) {
						m := newMarket(seed, requesters, perHour, failing)
						_, f := m.run(200)
						first += f
						_, f = m.run(400)
						failed += f
					}
					t.Logf("failed %d of the first %d requests, and %d of the next %d", first, seeds*200, failed, seeds*400)
					if failed >= seeds*400/100 {
						t.Errorf("it failed %d of %d requests, want less than 1 %%", failed, seeds*400)
					}
				})
			}
		}
	}
}

// A provider that fails now and then keeps its requests.
func TestHonestProviderKeepsItsRequests(t *testing.T) {
	for _, perHour := range rates {
		for _, requesters := range []int{1, 2, 9} {
			t.Run(fmt.Sprintf("at %v an hour from %d", perHour, requesters), func(t *testing.T) {
				got := 0
				for seed := range uint64(seeds) {
					g, _ := newMarket(seed, requesters, perHour, 0.02).run(500)
					got += g
				}
				if got < seeds*495 {
					t.Errorf("it got %d of %d requests, want at least 99 %%", got, seeds*500)
				}
			})
		}
	}
}
