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
	// Timeouts are how long the broker waits for agents.
	Timeouts Timeouts
	// DefaultTTL is how long a reservation from the broker cluster is held if it sets no
	// duration.
	DefaultTTL time.Duration
	// Bounds limit every new reservation.
	Bounds Bounds
	// Access lists the clusters that take part and limits how often each may call.
	Access access.Policy
	// Queue bounds the queue, Preemption decides whether waiting requests may displace others.
	Queue      QueueConfig
	Preemption PreemptionConfig
	// PriorityLimits are the highest priorities of clusters.
	PriorityLimits PriorityLimits
	// Rates convert prices.
	Rates decision.Rates
	// Headroom is the percentage of a cluster's allocatable amounts that is not promised.
	Headroom int
	// OverSubscription bounds the ratios at which clusters may promise more than they have,
	// whatever ratios they offer.
	OverSubscription quantity.Ratios
	// Visibility limits the information that requesters get about other clusters.
	Visibility Visibility
	// Budget limits what each member may use of the broker.
	Budget Budget
}

// Timeouts are how long the broker waits for agents before it acts.
type Timeouts struct {
	// Placement is the time for the two agents of a placement.
	Placement ledger.Limits
	// Silence is how long an agent may be silent before its cluster gets no new reservations.
	// Agents are asked to advertise three times in this time.
	Silence time.Duration
	// Healing is how long a provider may be silent before its reservations move to others. It
	// is at least Silence.
	Healing time.Duration
	// NotReady is how long a virtual node that was Ready may be NotReady before its reservation
	// moves to another provider.
	NotReady time.Duration
}

// advertiseEvery is the interval at which agents are asked to advertise.
func (t *Timeouts) advertiseEvery() time.Duration { return t.Silence / 3 }

// DefaultTimeouts applies without BrokerConfig.spec.timeouts.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Placement: ledger.Limits{Acknowledge: 10 * time.Second, Ready: 2 * time.Minute, Network: 10 * time.Minute},
		Silence:   90 * time.Second, Healing: 90 * time.Second, NotReady: 5 * time.Minute,
	}
}

// DefaultConfig applies without a BrokerConfig: balanced weights, Inactive after 10 minutes,
// and a duration of 1 hour. Up to 10,000 requests wait for up to an hour, and none preempts.
func DefaultConfig() Config {
	weights, err := decision.Preset(decision.DefaultPreset)
	if err != nil {
		panic(err)
	}
	return Config{
		Weights: weights, StaleThreshold: 10 * time.Minute, DefaultTTL: time.Hour, Timeouts: DefaultTimeouts(),
		Queue: QueueConfig{MaxLength: 10_000, Timeout: time.Hour}, Preemption: PreemptionConfig{Grace: 2 * time.Minute},
		Budget: DefaultBudget(),
	}
}

// SetConfig takes effect with the next decision. When it returns, a cluster that c does not
// admit is denied. Existing reservations keep their promised capacity.
func (b *Broker) SetConfig(_ context.Context, c Config) {
	b.applyConfig(c)
	b.gate.Set(c.Access)
}

func (b *Broker) applyConfig(c Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	retimed := c.Timeouts != b.config.Timeouts
	b.config, b.configured = c, true
	if b.session != nil {
		b.session.market.SetRates(c.Rates)
		b.session.clusters.applyBudget()
		b.session.clusters.recordCeilings()
		b.session.clusters.updateAllFreshness()
		b.session.queue.applyConfig()
		b.session.quotes.rescheduleAll()
		if retimed {
			b.session.deadlines.rescheduleAll()
		}
		b.session.queue.serveWaiting()
	}
}

// Configured reports whether SetConfig was called. Before that the broker decides nothing, and
// Access admits no cluster.
func (b *Broker) Configured() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.configured
}

// Access returns the gate that admits clusters under the current configuration.
func (b *Broker) Access() *access.Gate { return b.gate }

func errUnconfigured() *fault.Error {
	e := fault.New(fault.Unavailable, "the broker has not read its configuration yet; nothing was changed, try again")
	e.RetryAfter = time.Second
	return e
}

const (
	// lease is how long a reservation without duration outlives the last call of its requester.
	// It is long because the end of a reservation stops workloads.
	lease = 24 * time.Hour
	// renewEvery lets a requester that misses one renewal try twice more.
	renewEvery = lease / 3
	// retain is how long an ended reservation stays in the book, so that a late retry still
	// finds it.
	retain = 24 * time.Hour
)
