package broker

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/budget"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/visibility"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Config is the configuration that an administrator sets in BrokerConfig.
type Config struct {
	// Weights are the weights of the decision's criteria, in percent.
	Weights decision.Weights
	// StaleThreshold is how long a cluster may be silent before it is Inactive.
	StaleThreshold time.Duration
	// Timeouts are how long the broker waits for agents before it acts.
	Timeouts term.Timeouts
	// DefaultTTL is the duration of a reservation that was created in the broker cluster without a
	// duration.
	DefaultTTL time.Duration
	// Idle bounds how long any reservation may be idle, nil for no bound.
	Idle *ledger.IdlePolicy
	// Bounds are the limits of every new reservation.
	Bounds requests.Bounds
	// Access says which clusters may take part and how often each may call.
	Access access.Policy
	// Queue limits the queue. Preemption says whether waiting requests may displace other
	// reservations.
	Queue      queueing.Config
	Preemption queueing.PreemptionConfig
	// PriorityLimits are the highest priorities that clusters may use.
	PriorityLimits requests.PriorityLimits
	// Rates are the exchange rates for comparing prices.
	Rates decision.Rates
	// Drains contains the drained or cordoned clusters by ID.
	Drains map[string]drains.Drain
	// Headroom is the percentage of every cluster's lendable amounts that is kept free.
	Headroom int
	// OverSubscription has the largest ratios at which clusters may promise more than they have,
	// whatever ratios they offer.
	OverSubscription quantity.Ratios
	// Visibility limits the information that requesters get about other clusters.
	Visibility visibility.Visibility
	// Budget limits how much of the broker each member may use.
	Budget budget.Budget
	// Accounts says how long the accounts of ended periods are kept.
	Accounts archive.Retention
	// Notifications are the channels to which events are sent. The broker itself does not use them,
	// see package outbox.
	Notifications []notify.Channel
	// Document is the whole configuration as the journal stores it, see ledger.Configure; if it is
	// nil, only the ceilings of over-subscription are journaled. Generation is the generation of
	// the BrokerConfig, 0 if there is none. By is who wrote the BrokerConfig.
	Document   json.RawMessage
	Generation int64
	By         ledger.Actor
}

// DefaultTimeouts returns the timeouts without BrokerConfig.spec.timeouts.
func DefaultTimeouts() term.Timeouts {
	return term.Timeouts{
		Placement: ledger.Limits{Acknowledge: 10 * time.Second, Ready: 2 * time.Minute, Network: 10 * time.Minute},
		Silence:   90 * time.Second, Healing: 90 * time.Second, NotReady: 5 * time.Minute,
	}
}

// DefaultConfig returns the configuration without a BrokerConfig: balanced weights, clusters are
// Inactive after 10 minutes, and reservations last 1 hour. Up to 10,000 requests wait for up to an
// hour, and none preempts.
func DefaultConfig() Config {
	weights, err := decision.Preset(decision.DefaultPreset)
	if err != nil {
		panic(err)
	}
	return Config{
		Weights: weights, StaleThreshold: 10 * time.Minute, DefaultTTL: time.Hour, Timeouts: DefaultTimeouts(),
		Queue: queueing.Config{MaxLength: 10_000, Timeout: time.Hour}, Preemption: queueing.PreemptionConfig{Grace: 2 * time.Minute},
		Budget: budget.Default(), Accounts: archive.Retention{Days: 35, Months: 25},
	}
}

// SetConfig replaces the configuration; the next decision uses it. When it returns, a cluster that
// c does not admit is denied. Existing reservations keep their capacity.
func (b *Broker) SetConfig(_ context.Context, c Config) {
	b.applyConfig(c)
	b.gate.Set(c.Access)
}

func (b *Broker) applyConfig(c Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, known := b.config, b.configured
	retimed := c.Timeouts != before.Timeouts
	bounded := !reflect.DeepEqual(c.Idle, before.Idle)
	b.config, b.configured = c, true
	if b.session != nil {
		b.session.market.SetRates(c.Rates)
		b.session.recordConfiguration()
		b.session.UpdateAll()
		b.session.Drains.Apply(before.Drains, known)
		b.session.ApplyRules()
		b.session.RefreshAll()
		if c.Queue.Paused != before.Queue.Paused || !known {
			for _, r := range b.session.Waiting() {
				b.session.publishChange(r) // statuses show whether the queue is paused
			}
		}
		b.session.Quotes.RescheduleAll()
		if retimed {
			b.session.rescheduleAll()
		}
		if bounded || !known {
			b.session.book.Reservations(b.session.Idles.ReservationChanged)
		}
		b.session.serveWaiting()
	}
}

// Configured reports whether SetConfig was called. Before that the broker makes no decision, and
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

const retain = term.Retain
