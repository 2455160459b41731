package robustness

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// counts are how often a run breaks what.
type counts struct {
	failpointRounds, kills, pauses, mangled int
	outage                                  time.Duration
}

var (
	small = counts{failpointRounds: 1, kills: 10, pauses: 3, mangled: 500, outage: 10 * time.Second}
	full  = counts{failpointRounds: 5, kills: 60, pauses: 20, mangled: 10_000, outage: time.Minute}
)

// soaking is whether a run takes the full counts.
var soaking = os.Getenv("LRB_SOAK") != ""

func wanted() counts {
	if soaking {
		return full
	}
	return small
}

// seeded returns chance that LRB_SEED repeats. Processes and the network have their
// own: the same seed gives the same faults, not the same interleaving.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("LRB_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("LRB_SEED: %v", err)
		}
	}
	t.Logf("LRB_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
