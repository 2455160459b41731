package brokerconfig

import (
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
)

func queueOf(spec *brokerv1alpha1.BrokerConfigSpec, config broker.QueueConfig) broker.QueueConfig {
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

func preemptionOf(spec *brokerv1alpha1.BrokerConfigSpec, config broker.PreemptionConfig) broker.PreemptionConfig {
	if spec.Preemption == nil {
		return config
	}
	config.LowerPriority = spec.Preemption.Policy == brokerv1alpha1.PreemptLowerPriority
	if spec.Preemption.GracePeriod != nil {
		config.Grace = spec.Preemption.GracePeriod.Duration
	}
	return config
}

func ceilingsOf(spec *brokerv1alpha1.BrokerConfigSpec) broker.Ceilings {
	c := broker.Ceilings{Default: spec.DefaultMaxPriority, Of: map[string]int32{}}
	for _, ceiling := range spec.PriorityCeilings {
		c.Of[ceiling.ClusterID] = ceiling.MaxPriority
	}
	return c
}
