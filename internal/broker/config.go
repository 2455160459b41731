package broker

import (
	"context"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/ledger"
)

// Config is what an administrator sets in BrokerConfig.
type Config struct {
	// Weights of the decision's criteria, in percent.
	Weights decision.Weights
	// StaleThreshold is how long a cluster may be silent before it is Inactive.
	StaleThreshold time.Duration
	// DefaultTTL is how long a reservation made in the broker cluster is held if it
	// does not say.
	DefaultTTL time.Duration
	// Bounds of every reservation that is made from now on.
	Bounds Bounds
}

// DefaultConfig holds without a BrokerConfig: balanced, 10 minutes, 1 hour.
func DefaultConfig() Config {
	weights, err := decision.Preset(decision.DefaultPreset)
	if err != nil {
		panic(err)
	}
	return Config{Weights: weights, StaleThreshold: 10 * time.Minute, DefaultTTL: time.Hour}
}

// SetConfig takes effect with the next decision. Reservations that are made keep
// what they were promised.
func (b *Broker) SetConfig(_ context.Context, c Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config = c
	if b.term != nil {
		b.term.judgeAll()
	}
}

const (
	// lease is how long a reservation without duration outlives the last word of its
	// requester. It is long because its end takes workloads down.
	lease = 24 * time.Hour
	// renewEvery leaves a requester that is away two more tries.
	renewEvery = lease / 3
	// advertiseEvery is the interval agents are asked to keep.
	advertiseEvery = 30 * time.Second
	// staleAfter is when a silent agent's cluster takes nothing new.
	staleAfter = 3 * advertiseEvery
	// retain is how long what is over stays in the book, so that a late retry
	// still finds it.
	retain = 24 * time.Hour
)

// limits of a placement: see ledger.Limits.
var limits = ledger.Limits{Acknowledge: 10 * time.Second, Ready: 2 * time.Minute}
