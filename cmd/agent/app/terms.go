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
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

// maxNodeLabels is the maximum of published node labels, as in the CRD of the Advertisement.
const maxNodeLabels = 16

// checkTerms refuses values that the Advertisement's CRD does not accept. With them the agent
// could not advertise at all.
func (o *options) checkTerms() error {
	if err := wire.CheckLabels("--cluster-labels", o.labels, configuration.MaxLabels); err != nil {
		return err
	}
	if err := wire.CheckClaims("--claims", o.claims, configuration.MaxLabels); err != nil {
		return err
	}
	keys := map[string]string{}
	for _, key := range o.nodeLabels {
		keys[key] = ""
	}
	if err := wire.CheckLabels("--node-labels", keys, maxNodeLabels); err != nil {
		return err
	}
	if _, err := quantity.ParseRatios(o.overSubscription); err != nil {
		return fmt.Errorf("--over-subscription: %w", err)
	}
	return configuration.CheckCost(o.cost(), priceFlag)
}

// priceFlags are those that set each field of a Cost.
var priceFlags = map[string]string{
	"cpuCost": "cpu-cost", "memoryCost": "memory-cost", "storageCost": "storage-cost", "egressCost": "egress-cost",
	"resourceCosts": "resource-costs", "currency": "currency",
}

// priceFlag is the flag of a field of a Cost, and of which of its resources.
func priceFlag(field string) string {
	if flag, ok := priceFlags[field]; ok {
		return "--" + flag
	}
	return "--resource-costs: " + field[len("resourceCosts."):]
}

// cost is nil where no flag names a price.
func (o *options) cost() *brokerv1alpha1.Cost {
	return configuration.WithResources(o.prices, o.resourceCosts)
}

// terms merges flags and the configuration file. Flags take precedence.
type terms struct {
	*options
	// file is nil without --config.
	file *configuration.Keeper
	// pricer has the prices of the file; nil without one, and where flags name prices.
	pricer *pricing.Pricer
}

var _ advertisement.Terms = (*terms)(nil)

// openTerms reads the configuration file, if there is one.
func (a *agent) openTerms() error {
	a.terms = &terms{options: a.options}
	if a.configFile == "" {
		return nil
	}
	var err error
	a.terms.file, err = configuration.Open(a.configFile, clock.RealClock{}, a.log.WithName("configuration"))
	return err
}

func (t *terms) configured() *configuration.Configuration {
	if t.file == nil {
		return configuration.Default()
	}
	return t.file.Current()
}

// Terms implements advertisement.Terms. Each field comes from one source as a whole.
func (t *terms) Terms() advertisement.Offered {
	c := t.configured()
	out := advertisement.Offered{
		Cost: c.Prices, Labels: wire.ToLabels(c.Labels), Claims: wire.ToLabels(t.claims), Terms: t.offer(),
	}
	if at := t.place(); at != (guard.Place{}) {
		out.Topology = &brokerv1alpha1.Topology{Region: at.Region, Zone: at.Zone}
	}
	if t.given("cluster-labels") {
		out.Labels = wire.ToLabels(t.labels)
	}
	if t.pricer != nil {
		out.Cost = t.pricer.Cost()
	}
	if cost := t.cost(); cost != nil {
		out.Cost = cost
	}
	return out
}

// offer returns how much is lent.
func (t *terms) offer() offering.Terms {
	out := t.configured().Offer
	if t.given("over-subscription") {
		out.Ratios, _ = quantity.ParseRatios(t.overSubscription) // checkTerms let them pass
	}
	return out
}

// place returns the region and zone of the cluster.
func (t *terms) place() guard.Place {
	c := t.configured()
	at := guard.Place{Region: c.Region, Zone: c.Zone}
	if t.given("region") {
		at.Region = t.region
	}
	if t.given("zone") {
		at.Zone = t.zone
	}
	return at
}

// Changed implements advertisement.Terms.
func (t *terms) Changed() <-chan struct{} {
	if t.file == nil {
		return nil
	}
	return t.file.Changed()
}

// Conditions implements advertisement.Terms.
func (t *terms) Conditions() []metav1.Condition {
	if t.file == nil {
		return nil
	}
	out := []metav1.Condition{t.inForce()}
	if t.pricer != nil {
		if c := t.pricer.Condition(); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// inForce returns the condition Configured.
func (t *terms) inForce() metav1.Condition {
	if err := t.file.Problem(); err != nil {
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
