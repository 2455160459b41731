package robustness

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// counts are the numbers of faults in a run.
type counts struct {
	failpointRounds, kills, pauses, mangled int
	outage                                  time.Duration
}

var (
	small = counts{failpointRounds: 1, kills: 10, pauses: 3, mangled: 500, outage: 10 * time.Second}
	full  = counts{failpointRounds: 5, kills: 60, pauses: 20, mangled: 10_000, outage: time.Minute}
)

// soaking is true for a run with the full counts.
var soaking = os.Getenv("LRB_SOAK") != ""

func wanted() counts {
	if soaking {
		return full
	}
	return small
}

// seededRandom returns a random source that LRB_SEED can repeat. Processes and the network add their own randomness:
// the same seed gives the same faults, not the same interleaving.
func seededRandom(t *testing.T) *rand.Rand {
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
