package specs

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ReadConfig returns the configuration in a BrokerConfig. Fields that are not set keep
// the values of broker.DefaultConfig.
func ReadConfig(spec *brokerv1alpha1.BrokerConfigSpec) (broker.Config, error) {
	config := broker.DefaultConfig()
	config.Access = access.PolicyOf(spec)
	if spec.ScoringPreset != "" {
		weights, err := decision.Preset(string(spec.ScoringPreset))
		if err != nil {
			return config, fmt.Errorf("scoringPreset: %w", err)
		}
		config.Weights = weights
	}
	if w := spec.ScoringWeights; w != nil {
		config.Weights = decision.Weights{
			decision.Availability: int(w.ResourceAvailability), decision.Cost: int(w.Cost),
			decision.Latency: int(w.Latency), decision.Reliability: int(w.Reliability),
		}
		if err := config.Weights.Validate(); err != nil {
			return config, fmt.Errorf("scoringWeights: %w", err)
		}
	}
	config.Headroom = int(spec.Headroom)
	config.Budget = readBudget(spec.MemberBudget, config.Budget)
	if v := spec.Visibility; v != nil {
		config.Visibility = broker.Visibility{Candidates: v.Candidates, HidePrices: v.HidePrices}
	}
	var err error
	if config.OverSubscription, err = quantity.ParseRatios(spec.OverSubscriptionCeilings); err != nil {
		return config, fmt.Errorf("overSubscriptionCeilings: %w", err)
	}
	if config.Rates, err = readExchangeRates(spec.ExchangeRates); err != nil {
		return config, fmt.Errorf("exchangeRates: %w", err)
	}
	if spec.StaleThreshold != nil {
		config.StaleThreshold = spec.StaleThreshold.Duration
	}
	config.Timeouts = readTimeouts(spec.Timeouts, config.Timeouts)
	config.Queue, config.Preemption, config.PriorityLimits = readQueue(spec, config.Queue), readPreemption(spec, config.Preemption), readPriorityLimits(spec)
	if config.Bounds, err = broker.BoundsOf(spec); err != nil {
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

// readTimeouts returns the timeouts of a BrokerConfig. A provider is silent before its
// reservations move, so a longer silence postpones healing.
func readTimeouts(set *brokerv1alpha1.Timeouts, timeouts broker.Timeouts) broker.Timeouts {
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

func readBudget(set *brokerv1alpha1.MemberBudget, budget broker.Budget) broker.Budget {
	if set == nil {
		return budget
	}
	budget.Reservations = cmp.Or(int(set.Reservations), budget.Reservations)
	budget.Waiting = cmp.Or(int(set.Waiting), budget.Waiting)
	budget.ResourceNames = cmp.Or(int(set.ResourceNames), budget.ResourceNames)
	if set.JournalPerHour != nil {
		budget.JournalPerHour = set.JournalPerHour.Value()
	}
	return budget
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
		rate, err := decision.ParsePrice(string(text))
		if err != nil {
			return decision.Rates{}, fmt.Errorf("rates[%s]: %w", code, err)
		}
		rates.Per[code] = rate
	}
	return rates, rates.Validate()
}

func readQueue(spec *brokerv1alpha1.BrokerConfigSpec, config broker.QueueConfig) broker.QueueConfig {
	if spec.Queue == nil {
		return config
	}
	if spec.Queue.MaxLength != nil {
		config.MaxLength = int(*spec.Queue.MaxLength)
	}
	if spec.Queue.DefaultTimeout != nil {
		config.Timeout = spec.Queue.DefaultTimeout.Duration
	}
	return config
}

func readPreemption(spec *brokerv1alpha1.BrokerConfigSpec, config broker.PreemptionConfig) broker.PreemptionConfig {
	if spec.Preemption == nil {
		return config
	}
	config.LowerPriority = spec.Preemption.Policy == brokerv1alpha1.PreemptLowerPriority
	if spec.Preemption.GracePeriod != nil {
		config.Grace = spec.Preemption.GracePeriod.Duration
	}
	return config
}

func readPriorityLimits(spec *brokerv1alpha1.BrokerConfigSpec) broker.PriorityLimits {
	c := broker.PriorityLimits{Default: spec.DefaultMaxPriority, Of: map[string]int32{}}
	for _, limit := range spec.PriorityLimits {
		c.Of[limit.ClusterID] = limit.MaxPriority
	}
	return c
}
