package app

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/advertisement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/pricing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

// maxNodeLabels is the maximum of published node labels, as in the CRD of the Advertisement.
const maxNodeLabels = 16

// checkOffer returns an error for values that the Advertisement's CRD does not accept. With such
// values the agent could not advertise at all.
func (o *options) checkOffer() error {
	if err := terms.CheckLabels("--cluster-labels", o.labels, configuration.MaxLabels); err != nil {
		return err
	}
	if err := terms.CheckClaims("--claims", o.claims, configuration.MaxLabels); err != nil {
		return err
	}
	keys := map[string]string{}
	for _, key := range o.nodeLabels {
		keys[key] = ""
	}
	if err := terms.CheckLabels("--node-labels", keys, maxNodeLabels); err != nil {
		return err
	}
	if _, err := quantity.ParseRatios(o.overSubscription); err != nil {
		return fmt.Errorf("--over-subscription: %w", err)
	}
	return configuration.CheckCost(o.cost(), priceFlag)
}

// priceFlags maps each field of a Cost to the flag that sets it.
var priceFlags = map[string]string{
	"cpuCost": "cpu-cost", "memoryCost": "memory-cost", "storageCost": "storage-cost", "egressCost": "egress-cost",
	"resourceCosts": "resource-costs", "currency": "currency",
}

// priceFlag returns the flag for a field of a Cost, with the resource if the field is one of
// resourceCosts.
func priceFlag(field string) string {
	if flag, ok := priceFlags[field]; ok {
		return "--" + flag
	}
	return "--resource-costs: " + field[len("resourceCosts."):]
}

// cost returns the prices that flags set, or nil if no flag sets one.
func (o *options) cost() *brokerv1alpha1.Cost {
	return configuration.WithResources(o.prices, o.resourceCosts)
}

// settings merges flags and the configuration file. Flags take precedence.
type settings struct {
	*options
	// file is nil without --config.
	file *configuration.Keeper
	// pricer provides the prices of the configuration file. It is nil without a file, and if flags
	// set prices.
	pricer *pricing.Pricer
}

var _ advertisement.Terms = (*settings)(nil)

// openSettings reads the configuration file, if there is one.
func (a *agent) openSettings() error {
	a.settings = &settings{options: a.options}
	if a.configFile == "" {
		return nil
	}
	var err error
	a.settings.file, err = configuration.Open(a.configFile, clock.RealClock{}, a.log.WithName("configuration"))
	return err
}

func (s *settings) currentConfiguration() *configuration.Configuration {
	if s.file == nil {
		return configuration.Default()
	}
	return s.file.Current()
}

// Terms implements advertisement.Terms. Each field comes from one source as a whole.
func (s *settings) Terms() advertisement.Offered {
	c := s.currentConfiguration()
	out := advertisement.Offered{
		Cost: c.Prices, Labels: wire.ToLabels(c.Labels), Claims: wire.ToLabels(s.claims), Terms: s.offerTerms(),
	}
	if at := s.ownPlace(); at != (guard.Place{}) {
		out.Topology = &brokerv1alpha1.Topology{Region: at.Region, Zone: at.Zone}
	}
	if s.given("cluster-labels") {
		out.Labels = wire.ToLabels(s.labels)
	}
	if s.pricer != nil {
		out.Cost = s.pricer.Cost()
	}
	if cost := s.cost(); cost != nil {
		out.Cost = cost
	}
	return out
}

// offerTerms returns how much of the capacity is lent.
func (s *settings) offerTerms() offering.Terms {
	out := s.currentConfiguration().Offer
	if s.given("over-subscription") {
		out.Ratios, _ = quantity.ParseRatios(s.overSubscription) // checkOffer has validated the ratios
	}
	return out
}

// ownPlace returns the region and zone of the cluster.
func (s *settings) ownPlace() guard.Place {
	c := s.currentConfiguration()
	at := guard.Place{Region: c.Region, Zone: c.Zone}
	if s.given("region") {
		at.Region = s.region
	}
	if s.given("zone") {
		at.Zone = s.zone
	}
	return at
}

// Changed implements advertisement.Terms.
func (s *settings) Changed() <-chan struct{} {
	if s.file == nil {
		return nil
	}
	return s.file.Changed()
}

// Conditions implements advertisement.Terms.
func (s *settings) Conditions() []metav1.Condition {
	if s.file == nil {
		return nil
	}
	out := []metav1.Condition{s.inForce()}
	if s.pricer != nil {
		if c := s.pricer.Condition(); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// inForce returns the condition Configured.
func (s *settings) inForce() metav1.Condition {
	if err := s.file.Problem(); err != nil {
		return metav1.Condition{
			Type: agentv1alpha1.ConditionConfigured, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonConfigurationRefused,
			Message: "the last valid configuration stays in force: " + err.Error(),
		}
	}
	return metav1.Condition{
		Type: agentv1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonConfigured,
		Message: "the configuration file is in force",
	}
}
