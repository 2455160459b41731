// Package settings contains the configuration that an administrator sets in BrokerConfig.
package settings

import (
	"encoding/json"
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

// Default returns the configuration without a BrokerConfig: balanced weights, clusters are
// Inactive after 10 minutes, and reservations last 1 hour. Up to 10,000 requests wait for up to an
// hour, and none preempts.
func Default() Config {
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
