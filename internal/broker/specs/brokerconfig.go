package specs

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/budget"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queueing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/visibility"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ReadConfig returns the configuration in a BrokerConfig. Fields that are not set keep
// the values of settings.Default.
func ReadConfig(spec *brokerv1alpha1.BrokerConfigSpec) (settings.Config, error) {
	config := settings.Default()
	config.Access = access.PolicyOf(spec)
	var err error
	if config.Weights, err = readWeights(spec, config.Weights); err != nil {
		return config, err
	}
	config.Headroom = int(spec.Headroom)
	config.Drains = readDrains(spec.Drains)
	config.Budget = readBudget(spec.MemberBudget, config.Budget)
	if a := spec.Accounts; a != nil {
		config.Accounts = archive.Retention{Days: cmp.Or(int(a.Days), config.Accounts.Days), Months: cmp.Or(int(a.Months), config.Accounts.Months)}
	}
	if config.Notifications, err = readNotifications(spec.Notifications); err != nil {
		return config, fmt.Errorf("notifications%w", err)
	}
	if v := spec.Visibility; v != nil {
		config.Visibility = visibility.Visibility{Candidates: v.Candidates, HidePrices: v.HidePrices}
	}
	if config.OverSubscription, err = quantity.ParseRatios(spec.OverSubscriptionCeilings); err != nil {
		return config, fmt.Errorf("overSubscriptionCeilings: %w", err)
	}
	if config.Rates, err = readExchangeRates(spec.ExchangeRates); err != nil {
		return config, fmt.Errorf("exchangeRates: %w", err)
	}
	if spec.StaleThreshold != nil {
		config.StaleThreshold = spec.StaleThreshold.Duration
	}
	if spec.Idle != nil {
		config.Idle = readIdle(spec.Idle)
	}
	config.Timeouts = readTimeouts(spec.Timeouts, config.Timeouts)
	config.Queue, config.Preemption, config.PriorityLimits = readQueue(spec, config.Queue), readPreemption(spec, config.Preemption), readPriorityLimits(spec)
	if config.Bounds, err = requests.BoundsOf(spec); err != nil {
		return config, err
	}
	longest := config.Bounds.Duration
	if spec.DefaultTTL != nil {
		config.DefaultTTL = spec.DefaultTTL.Duration
		if longest != 0 && config.DefaultTTL > longest {
			return config, fmt.Errorf("defaultTTL: %s is longer than maxDuration %s: shorten it or raise maxDuration", config.DefaultTTL, longest)
		}
	} else if longest != 0 {
		config.DefaultTTL = min(config.DefaultTTL, longest)
	}
	return config, nil
}

// readWeights returns the weights of the criteria that a BrokerConfig sets, or else the given ones.
func readWeights(spec *brokerv1alpha1.BrokerConfigSpec, weights decision.Weights) (decision.Weights, error) {
	var err error
	if spec.ScoringPreset != "" {
		if weights, err = decision.Preset(string(spec.ScoringPreset)); err != nil {
			return weights, fmt.Errorf("scoringPreset: %w", err)
		}
	}
	if w := spec.ScoringWeights; w != nil {
		weights = decision.Weights{
			decision.Availability: int(w.ResourceAvailability), decision.Cost: int(w.Cost),
			decision.Latency: int(w.Latency), decision.Reliability: int(w.Reliability),
		}
		if err := weights.Validate(); err != nil {
			return weights, fmt.Errorf("scoringWeights: %w", err)
		}
	}
	return weights, nil
}

// readTimeouts returns the timeouts that a BrokerConfig sets, or else the given ones. If it sets any,
// the result has Healing at least as long as Silence, because the reservations of a provider are moved
// only once the provider counts as silent.
func readTimeouts(set *brokerv1alpha1.Timeouts, timeouts term.Timeouts) term.Timeouts {
	if set == nil {
		return timeouts
	}
	for _, one := range []struct {
		set  *metav1.Duration
		into *time.Duration
	}{
		{set.Acknowledgement, &timeouts.Placement.Acknowledge}, {set.Readiness, &timeouts.Placement.Ready},
		{set.Network, &timeouts.Placement.Network}, {set.Silence, &timeouts.Silence}, {set.Healing, &timeouts.Healing},
		{set.NotReady, &timeouts.NotReady},
	} {
		if one.set != nil {
			*one.into = one.set.Duration
		}
	}
	timeouts.Healing = max(timeouts.Healing, timeouts.Silence)
	return timeouts
}

func readBudget(set *brokerv1alpha1.MemberBudget, out budget.Budget) budget.Budget {
	if set == nil {
		return out
	}
	out.Reservations = cmp.Or(int(set.Reservations), out.Reservations)
	out.Waiting = cmp.Or(int(set.Waiting), out.Waiting)
	if set.JournalPerHour != nil {
		out.JournalPerHour = set.JournalPerHour.Value()
	}
	return out
}

func readExchangeRates(table *brokerv1alpha1.ExchangeRates) (decision.Rates, error) {
	if table == nil {
		return decision.Rates{}, nil
	}
	if _, err := time.Parse(time.DateOnly, table.Date); err != nil {
		return decision.Rates{}, fmt.Errorf("date: %q is not a date: write one such as 2026-11-20", table.Date)
	}
	rates := decision.Rates{Date: table.Date, Base: table.Base, Per: map[string]decision.Price{}}
	for code, text := range table.Rates {
		rate, err := money.ParsePrice(string(text))
		if err != nil {
			return decision.Rates{}, fmt.Errorf("rates[%s]: %w", code, err)
		}
		rates.Per[code] = rate
	}
	return rates, rates.Validate()
}

func readQueue(spec *brokerv1alpha1.BrokerConfigSpec, config queueing.Config) queueing.Config {
	if spec.Queue == nil {
		return config
	}
	if spec.Queue.MaxLength != nil {
		config.MaxLength = int(*spec.Queue.MaxLength)
	}
	if spec.Queue.DefaultTimeout != nil {
		config.Timeout = spec.Queue.DefaultTimeout.Duration
	}
	config.Paused = spec.Queue.Paused
	return config
}

// defaultNotice is the notice of a drain that does not set one.
const defaultNotice = 10 * time.Minute

func readDrains(list []brokerv1alpha1.ClusterDrain) map[string]drains.Drain {
	var out map[string]drains.Drain
	for _, d := range list {
		if out == nil {
			out = map[string]drains.Drain{}
		}
		drain := drains.Drain{CordonOnly: d.CordonOnly, Reason: d.Reason}
		if !d.CordonOnly {
			drain.Notice = defaultNotice
			if d.Notice != nil {
				drain.Notice = max(d.Notice.Duration, 0)
			}
		}
		out[d.ClusterID] = drain
	}
	return out
}

func readPreemption(spec *brokerv1alpha1.BrokerConfigSpec, config queueing.PreemptionConfig) queueing.PreemptionConfig {
	if spec.Preemption == nil {
		return config
	}
	config.LowerPriority = spec.Preemption.Policy == brokerv1alpha1.PreemptLowerPriority
	if spec.Preemption.GracePeriod != nil {
		config.Grace = spec.Preemption.GracePeriod.Duration
	}
	return config
}

func readPriorityLimits(spec *brokerv1alpha1.BrokerConfigSpec) requests.PriorityLimits {
	c := requests.PriorityLimits{Default: spec.DefaultMaxPriority, Of: map[string]int32{}}
	for _, limit := range spec.PriorityLimits {
		c.Of[limit.ClusterID] = limit.MaxPriority
	}
	return c
}
