package broker

import (
	"context"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
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
	// Access says which clusters take part, and how much each may ask.
	Access access.Policy
	// Queue bounds those who wait, Preemption says whose place they may take.
	Queue      QueueConfig
	Preemption PreemptionConfig
	// Ceilings of priorities.
	Ceilings Ceilings
	// Rates convert prices.
	Rates decision.Rates
	// Headroom is the percentage of what a cluster has allocatable that is not promised.
	Headroom int
	// OverSubscription are the highest ratios at which clusters may promise more than they
	// have, whatever they offer.
	OverSubscription quantity.Ratios
	// Visibility is what requesters are told of clusters that they did not get.
	Visibility Visibility
	// Budget is what each member may use of the broker.
	Budget Budget
}

// DefaultConfig holds without a BrokerConfig: balanced, 10 minutes, 1 hour; up to
// 10,000 wait for up to an hour, and nobody makes room for another.
func DefaultConfig() Config {
	weights, err := decision.Preset(decision.DefaultPreset)
	if err != nil {
		panic(err)
	}
	return Config{
		Weights: weights, StaleThreshold: 10 * time.Minute, DefaultTTL: time.Hour,
		Queue: QueueConfig{MaxLength: 10_000, Timeout: time.Hour}, Preemption: PreemptionConfig{Grace: 2 * time.Minute},
		Budget: DefaultBudget(),
	}
}

// SetConfig takes effect with the next decision, and whoever c does not admit is
// shut out before it returns. Reservations that are made keep what they were
// promised.
func (b *Broker) SetConfig(_ context.Context, c Config) {
	b.configure(c)
	b.gate.Set(c.Access)
}

func (b *Broker) configure(c Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config, b.configured = c, true
	if b.session != nil {
		b.session.market.SetRates(c.Rates)
		b.session.clusters.applyBudget()
		b.session.clusters.recordCeilings()
		b.session.clusters.updateAllFreshness()
		b.session.queue.reconsider()
		b.session.quotes.rescheduleAll()
		b.session.queue.serve()
	}
}

// Configured says whether SetConfig was called. Until then nothing is decided, and
// Access lets nobody in.
func (b *Broker) Configured() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.configured
}

// Access admits the clusters that the configuration in force admits.
func (b *Broker) Access() *access.Gate { return b.gate }

func errUnconfigured() *fault.Error {
	e := fault.New(fault.Unavailable, "the broker has not read its configuration yet; nothing was changed, try again")
	e.RetryAfter = time.Second
	return e
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
